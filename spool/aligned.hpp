// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Zeroed memory that O_DIRECT accepts.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "agent/base/result.hpp"
#include "spool/format.hpp"
#include "spool/paths.hpp"

namespace tally::spool {

struct FreeAligned {
    void operator()(std::uint8_t* p) const { std::free(p); }
};
using AlignedBuffer = std::unique_ptr<std::uint8_t[], FreeAligned>;

inline AlignedBuffer make_aligned(std::uint64_t bytes) {
    const std::uint64_t whole = round_up(bytes, block_bytes);
    void* p = std::aligned_alloc(block_bytes, whole);
    TALLY_ASSERT(p != nullptr);
    std::memset(p, 0, whole);
    return AlignedBuffer(static_cast<std::uint8_t*>(p));
}

}  // namespace tally::spool
