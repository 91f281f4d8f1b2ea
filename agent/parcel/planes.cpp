// SPDX-License-Identifier: Apache-2.0
#include "agent/parcel/planes.hpp"

#include <cstring>

#include "agent/base/result.hpp"
#include "agent/parcel/clones.hpp"

namespace tally::parcel {

namespace {

template <class T>
inline T load(const std::uint8_t* values, std::size_t i) {
    T v;
    std::memcpy(&v, values + i * sizeof(T), sizeof(T));
    return v;
}

TALLY_CLONES
void split2(const std::uint8_t* __restrict in, std::size_t n, std::uint8_t* __restrict p0, std::uint8_t* __restrict p1) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto v = load<std::uint16_t>(in, i);
        p0[i] = static_cast<std::uint8_t>(v);
        p1[i] = static_cast<std::uint8_t>(v >> 8);
    }
}

TALLY_CLONES
void split4(const std::uint8_t* __restrict in, std::size_t n, std::uint8_t* __restrict p0, std::uint8_t* __restrict p1,
            std::uint8_t* __restrict p2, std::uint8_t* __restrict p3) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto v = load<std::uint32_t>(in, i);
        p0[i] = static_cast<std::uint8_t>(v);
        p1[i] = static_cast<std::uint8_t>(v >> 8);
        p2[i] = static_cast<std::uint8_t>(v >> 16);
        p3[i] = static_cast<std::uint8_t>(v >> 24);
    }
}

// One plane at a time: eight write streams at once vectorise badly, and the values are in the cache.
TALLY_CLONES
void split8_plane(const std::uint8_t* __restrict in, std::size_t n, unsigned shift, std::uint8_t* __restrict plane) {
    for (std::size_t i = 0; i < n; ++i) plane[i] = static_cast<std::uint8_t>(load<std::uint64_t>(in, i) >> shift);
}

TALLY_CLONES
void join2(const std::uint8_t* __restrict p, std::size_t n, std::uint8_t* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto v = static_cast<std::uint16_t>(p[i] | (p[n + i] << 8));
        std::memcpy(out + i * 2, &v, 2);
    }
}

TALLY_CLONES
void join4(const std::uint8_t* __restrict p, std::size_t n, std::uint8_t* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t v = std::uint32_t{p[i]} | std::uint32_t{p[n + i]} << 8 | std::uint32_t{p[2 * n + i]} << 16 |
                                std::uint32_t{p[3 * n + i]} << 24;
        std::memcpy(out + i * 4, &v, 4);
    }
}

TALLY_CLONES
void join8(const std::uint8_t* __restrict p, std::size_t n, std::uint8_t* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t v = plane_bits(p, 8, n, i);
        std::memcpy(out + i * 8, &v, 8);
    }
}

}  // namespace

void split_planes(const std::uint8_t* values, std::uint32_t width, std::size_t n, std::uint8_t* planes) {
    switch (width) {
        case 1: std::memcpy(planes, values, n); return;
        case 2: split2(values, n, planes, planes + n); return;
        case 4: split4(values, n, planes, planes + n, planes + 2 * n, planes + 3 * n); return;
        case 8:
            for (unsigned p = 0; p < 8; ++p) split8_plane(values, n, 8 * p, planes + p * n);
            return;
        default: TALLY_ASSERT(!"width of a dtype");
    }
}

void join_planes(const std::uint8_t* planes, std::uint32_t width, std::size_t n, std::uint8_t* values) {
    switch (width) {
        case 1: std::memcpy(values, planes, n); return;
        case 2: join2(planes, n, values); return;
        case 4: join4(planes, n, values); return;
        case 8: join8(planes, n, values); return;
        default: TALLY_ASSERT(!"width of a dtype");
    }
}

}  // namespace tally::parcel
