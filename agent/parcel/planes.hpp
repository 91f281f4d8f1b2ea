// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Byte planes: plane p holds byte p of every value, planes follow one another. Widths 1, 2, 4, 8.

#include <cstddef>
#include <cstdint>

namespace tally::parcel {

// `values` and `planes` hold n * width bytes and do not overlap.
void split_planes(const std::uint8_t* values, std::uint32_t width, std::size_t n, std::uint8_t* planes);
void join_planes(const std::uint8_t* planes, std::uint32_t width, std::size_t n, std::uint8_t* values);

// Bits of value i, zero-extended.
inline std::uint64_t plane_bits(const std::uint8_t* planes, std::uint32_t width, std::size_t n, std::size_t i) {
    std::uint64_t bits = 0;
    for (std::uint32_t p = 0; p < width; ++p) bits |= std::uint64_t{planes[p * n + i]} << (8 * p);
    return bits;
}

}  // namespace tally::parcel
