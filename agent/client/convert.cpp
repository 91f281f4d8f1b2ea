// SPDX-License-Identifier: Apache-2.0
#include "agent/client/convert.hpp"

namespace tally::client {

namespace {

template <class To, class From>
To bit_copy(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

template <class T>
T load(const std::uint8_t* at) {
    T v;
    std::memcpy(&v, at, sizeof v);
    return v;
}

// Nearest even; NaN stays NaN with its upper payload, never becoming infinity.
std::uint16_t to_bf16(float value) {
    const auto bits = bit_copy<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
        const auto top = static_cast<std::uint16_t>(bits >> 16);
        return (top & 0x7FU) != 0 ? top : static_cast<std::uint16_t>(top | 0x40U);
    }
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

std::uint16_t to_f16(double value) {
    const auto bits = bit_copy<std::uint64_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000U);
    const int exponent = static_cast<int>((bits >> 52) & 0x7FF);
    const std::uint64_t mantissa = bits & 0xFFFFFFFFFFFFFULL;
    if (exponent == 0x7FF) {
        if (mantissa == 0) return static_cast<std::uint16_t>(sign | 0x7C00U);
        const auto top = static_cast<std::uint16_t>(mantissa >> 42);
        return static_cast<std::uint16_t>(sign | 0x7C00U | (top != 0 ? top : 0x200U));
    }
    const int e = exponent - 1023 + 15;
    if (e >= 31) return static_cast<std::uint16_t>(sign | 0x7C00U);
    if (e < -10) return sign;
    // 53 significant bits, cut to 11 (or fewer below the normal range), rounding to nearest even.
    const std::uint64_t full = (exponent == 0 ? 0 : 1ULL << 52) | mantissa;
    const int shift = 42 + (e <= 0 ? 1 - e : 0);
    std::uint64_t kept = full >> shift;
    const std::uint64_t rest = full & ((1ULL << shift) - 1);
    const std::uint64_t half = 1ULL << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    const std::uint64_t base = e <= 0 ? 0 : static_cast<std::uint64_t>(e - 1) << 10;
    return static_cast<std::uint16_t>(sign | (base + kept));
}

double half_to_f64(std::uint16_t h) {
    const std::uint64_t sign = static_cast<std::uint64_t>(h & 0x8000U) << 48;
    const std::uint64_t exponent = (h >> 10) & 31U;
    const std::uint64_t mantissa = h & 0x3FFU;
    if (exponent == 31) return bit_copy<double>(sign | 0x7FF0000000000000ULL | (mantissa << 42));
    if (exponent == 0) {
        const double v = static_cast<double>(mantissa) * 5.9604644775390625e-8;
        return sign != 0 ? -v : v;
    }
    return bit_copy<double>(sign | ((exponent - 15 + 1023) << 52) | (mantissa << 42));
}

bool is_float(int dtype) { return dtype >= TALLY_F16 && dtype <= TALLY_F64; }

std::uint64_t masked(std::uint64_t bits, int dtype) {
    const std::uint32_t w = width_of(dtype);
    return w == 8 ? bits : bits & ((1ULL << (8 * w)) - 1);
}

double load_float(const std::uint8_t* at, int dtype) {
    switch (dtype) {
        case TALLY_F16: return half_to_f64(load<std::uint16_t>(at));
        case TALLY_BF16: return bit_copy<float>(static_cast<std::uint32_t>(load<std::uint16_t>(at)) << 16);
        case TALLY_F32: return load<float>(at);
        default: return load<double>(at);
    }
}

std::int64_t load_int(const std::uint8_t* at, int dtype) {
    switch (dtype) {
        case TALLY_I8: return load<std::int8_t>(at);
        case TALLY_I16: return load<std::int16_t>(at);
        case TALLY_I32: return load<std::int32_t>(at);
        case TALLY_U8: case TALLY_BOOL: return load<std::uint8_t>(at);
        case TALLY_U16: return load<std::uint16_t>(at);
        case TALLY_U32: return load<std::uint32_t>(at);
        default: return load<std::int64_t>(at);
    }
}

}  // namespace

std::uint64_t bits_from_f64(int dtype, double value) {
    switch (dtype) {
        case TALLY_F16: return to_f16(value);
        case TALLY_BF16: return to_bf16(static_cast<float>(value));
        case TALLY_F32: return bit_copy<std::uint32_t>(static_cast<float>(value));
        case TALLY_F64: return bit_copy<std::uint64_t>(value);
        case TALLY_BOOL: return value != 0 ? 1 : 0;
        case TALLY_U64:
            if (!(value > 0)) return 0;
            return value >= 18446744073709551616.0 ? UINT64_MAX : static_cast<std::uint64_t>(value);
        default: break;
    }
    const bool has_sign = dtype >= TALLY_I8 && dtype <= TALLY_I64;
    const std::uint32_t bits = 8 * width_of(dtype) - (has_sign ? 1 : 0);  // of magnitude: 7 for i8, 8 for u8
    const std::int64_t high = static_cast<std::int64_t>((1ULL << bits) - 1);
    const std::int64_t low = has_sign ? -high - 1 : 0;
    std::int64_t v = 0;
    if (value >= static_cast<double>(high)) v = high;
    else if (value <= static_cast<double>(low)) v = low;
    else if (value == value) v = static_cast<std::int64_t>(value);
    return masked(static_cast<std::uint64_t>(v), dtype);
}

std::uint64_t bits_from_i64(int dtype, std::int64_t value) {
    if (is_float(dtype)) {
        // f32 straight from the integer: by way of f64 it would round twice.
        if (dtype == TALLY_F32) return bit_copy<std::uint32_t>(static_cast<float>(value));
        return bits_from_f64(dtype, static_cast<double>(value));
    }
    if (dtype == TALLY_BOOL) return value != 0 ? 1 : 0;
    return masked(static_cast<std::uint64_t>(value), dtype);
}

void convert(const void* data, int from, std::int64_t stride, std::size_t n, int to, std::uint8_t* out) {
    const auto* at = static_cast<const std::uint8_t*>(data);
    const std::uint32_t from_width = width_of(from);
    const std::uint32_t to_width = width_of(to);
    const bool keeps_bits = from == to || (to == TALLY_BF16 && from == TALLY_U16);
    if (stride == 0) stride = from_width;
    if (keeps_bits && to != TALLY_BOOL && stride == static_cast<std::int64_t>(from_width)) {
        std::memcpy(out, at, n * from_width);
        return;
    }
    if (from == TALLY_F64 && to == TALLY_F32) {
        for (std::size_t i = 0; i < n; ++i, at += stride) {
            const auto v = static_cast<float>(load<double>(at));
            std::memcpy(out + i * 4, &v, 4);
        }
        return;
    }
    for (std::size_t i = 0; i < n; ++i, at += stride) {
        std::uint64_t bits = 0;
        if (keeps_bits && to != TALLY_BOOL) std::memcpy(&bits, at, from_width);
        else if (is_float(from)) bits = bits_from_f64(to, load_float(at, from));
        else if (from == TALLY_U64 && is_float(to)) bits = bits_from_f64(to, static_cast<double>(load<std::uint64_t>(at)));
        else bits = bits_from_i64(to, load_int(at, from));
        std::memcpy(out + i * to_width, &bits, to_width);
    }
}

}  // namespace tally::client

extern "C" {
TALLY_API uint64_t tally_bits_f64(int dtype, double value) { return tally::client::bits_from_f64(dtype, value); }
TALLY_API uint64_t tally_bits_i64(int dtype, int64_t value) { return tally::client::bits_from_i64(dtype, value); }
}
