// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Memory that O_DIRECT accepts.

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

inline AlignedBuffer allocate_aligned(std::uint64_t bytes) {
    void* p = std::aligned_alloc(block_bytes, round_up(bytes, block_bytes));
    TALLY_ASSERT(p != nullptr);
    return AlignedBuffer(static_cast<std::uint8_t*>(p));
}
inline AlignedBuffer make_zeroed_aligned(std::uint64_t bytes) {
    AlignedBuffer out = allocate_aligned(bytes);
    std::memset(out.get(), 0, round_up(bytes, block_bytes));
    return out;
}

}  // namespace tally::spool
