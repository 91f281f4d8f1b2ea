// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/stats_kernel.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "agent/parcel/clones.hpp"

namespace tally::intake {

namespace {

constexpr std::size_t block_values = 512;  // as f64: 4 KiB, stays in the first-level cache
constexpr std::size_t lanes = 8;
typedef double Lanes __attribute__((vector_size(lanes * sizeof(double))));

template <class T>
[[gnu::always_inline]] inline void convert(const std::uint8_t* v, std::size_t n, double* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
        T x;
        std::memcpy(&x, v + i * sizeof(T), sizeof(T));
        out[i] = static_cast<double>(x);
    }
}

using V = const std::uint8_t*;
TALLY_CLONES void from_f32(V v, std::size_t n, double* out) { convert<float>(v, n, out); }
TALLY_CLONES void from_i8(V v, std::size_t n, double* out) { convert<std::int8_t>(v, n, out); }
TALLY_CLONES void from_i16(V v, std::size_t n, double* out) { convert<std::int16_t>(v, n, out); }
TALLY_CLONES void from_i32(V v, std::size_t n, double* out) { convert<std::int32_t>(v, n, out); }
TALLY_CLONES void from_i64(V v, std::size_t n, double* out) { convert<std::int64_t>(v, n, out); }
TALLY_CLONES void from_u8(V v, std::size_t n, double* out) { convert<std::uint8_t>(v, n, out); }
TALLY_CLONES void from_u16(V v, std::size_t n, double* out) { convert<std::uint16_t>(v, n, out); }
TALLY_CLONES void from_u32(V v, std::size_t n, double* out) { convert<std::uint32_t>(v, n, out); }
TALLY_CLONES void from_u64(V v, std::size_t n, double* out) { convert<std::uint64_t>(v, n, out); }

TALLY_CLONES void from_bf16(V v, std::size_t n, double* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t h;
        std::memcpy(&h, v + i * 2, 2);
        out[i] = std::bit_cast<float>(std::uint32_t{h} << 16);
    }
}

// Exponent and mantissa move into their places of an f32; the factor corrects the bias and normalises subnormals.
TALLY_CLONES void from_f16(V v, std::size_t n, double* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t h;
        std::memcpy(&h, v + i * 2, 2);
        const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>((h & 0x7FFFU) << 13) * 0x1p112F);
        const std::uint32_t special = (h & 0x7C00U) == 0x7C00U ? 0x7F800000U : 0U;
        out[i] = std::bit_cast<float>(scaled | special | (h & 0x8000U) << 16);
    }
}

struct Partial {
    Lanes min, max, sum, squares, finite;
};

// n is a multiple of `lanes`. Values that are not finite count as nothing: x - x is 0 for finite x only.
TALLY_CLONES void accumulate(const double* values, std::size_t n, Partial& p) {
    Lanes min = p.min;
    Lanes max = p.max;
    Lanes sum = p.sum;
    Lanes squares = p.squares;
    Lanes finite = p.finite;
    const Lanes zero = {};
    const Lanes one = zero + 1.0;
    for (std::size_t i = 0; i < n; i += lanes) {
        Lanes x;
        std::memcpy(&x, values + i, sizeof x);
        const auto ok = (x - x) == zero;
        const Lanes kept = ok ? x : zero;
        const Lanes low = ok ? x : min;
        const Lanes high = ok ? x : max;
        min = low < min ? low : min;
        max = high > max ? high : max;
        sum += kept;
        squares += kept * kept;
        finite += ok ? one : zero;
    }
    p = {min, max, sum, squares, finite};
}

Summary reduce(const Partial& p, std::uint64_t count) {
    Summary s;
    double finite = 0;
    s.min = p.min[0];
    s.max = p.max[0];
    for (std::size_t k = 0; k < lanes; ++k) {
        s.min = std::min(s.min, p.min[k]);
        s.max = std::max(s.max, p.max[k]);
        s.sum += p.sum[k];
        s.sum_squares += p.squares[k];
        finite += p.finite[k];
    }
    s.count = count;
    s.nonfinite = count - static_cast<std::uint64_t>(finite);
    if (s.nonfinite == count) s.min = s.max = 0;
    return s;
}

}  // namespace

void to_f64(const std::uint8_t* values, Dtype dtype, std::size_t n, double* out) {
    switch (dtype) {
        case Dtype::f16: return from_f16(values, n, out);
        case Dtype::bf16: return from_bf16(values, n, out);
        case Dtype::f32: return from_f32(values, n, out);
        case Dtype::f64: std::memcpy(out, values, n * sizeof(double)); return;
        case Dtype::i8: return from_i8(values, n, out);
        case Dtype::i16: return from_i16(values, n, out);
        case Dtype::i32: return from_i32(values, n, out);
        case Dtype::i64: return from_i64(values, n, out);
        case Dtype::u8:
        case Dtype::boolean: return from_u8(values, n, out);
        case Dtype::u16: return from_u16(values, n, out);
        case Dtype::u32: return from_u32(values, n, out);
        case Dtype::u64: return from_u64(values, n, out);
    }
}

Summary summarize(const std::uint8_t* values, Dtype dtype, std::uint32_t n) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const Lanes zero = {};
    Partial p = {zero + inf, zero - inf, zero, zero, zero};
    alignas(64) double block[block_values];
    const std::uint32_t width = dtype_width(dtype);
    for (std::uint32_t at = 0; at < n; at += block_values) {
        const std::size_t here = std::min<std::size_t>(block_values, n - at);
        to_f64(values + std::size_t{at} * width, dtype, here, block);
        const std::size_t padded = (here + lanes - 1) / lanes * lanes;
        std::fill(block + here, block + padded, std::nan(""));  // counts as nothing
        accumulate(block, padded, p);
    }
    return reduce(p, n);
}

}  // namespace tally::intake
