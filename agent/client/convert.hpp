// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    One vector of values into a ring, converted to the metric's dtype on the way.
// Errors  None: integers wrap, floats saturate to what the dtype holds, bool is value != 0.
//
// libc only, no libstdc++.

#include <cstdint>
#include <cstring>

#include "agent/client/tallyman.h"

namespace tally::client {

constexpr std::uint32_t width_of(int dtype) {
    switch (dtype) {
        case TALLY_F16: case TALLY_BF16: case TALLY_I16: case TALLY_U16: return 2;
        case TALLY_F32: case TALLY_I32: case TALLY_U32: return 4;
        case TALLY_F64: case TALLY_I64: case TALLY_U64: return 8;
        case TALLY_I8: case TALLY_U8: case TALLY_BOOL: return 1;
        default: return 0;
    }
}

std::uint64_t bits_from_f64(int dtype, double value);
std::uint64_t bits_from_i64(int dtype, std::int64_t value);
// n values of `from` at `data`, `stride` bytes apart, to contiguous values of `to`.
void convert(const void* data, int from, std::int64_t stride, std::size_t n, int to, std::uint8_t* out);

}  // namespace tally::client
