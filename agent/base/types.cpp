// SPDX-License-Identifier: Apache-2.0
#include "agent/base/types.hpp"

#include <sys/random.h>

#include <bit>
#include <cmath>

#include "agent/base/result.hpp"

namespace tally {

namespace {

void fill_random(void* out, std::size_t bytes) {
    // Below 256 bytes getrandom neither blocks after boot nor returns short.
    TALLY_ASSERT(::getrandom(out, bytes, 0) == static_cast<ssize_t>(bytes));
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

constexpr bool dash_before(std::size_t byte) { return byte == 4 || byte == 6 || byte == 8 || byte == 10; }

struct DtypeName {
    Dtype dtype;
    const char* name;
};
constexpr DtypeName dtype_names[] = {
    {Dtype::f16, "f16"}, {Dtype::bf16, "bf16"}, {Dtype::f32, "f32"}, {Dtype::f64, "f64"}, {Dtype::i8, "i8"},
    {Dtype::i16, "i16"}, {Dtype::i32, "i32"},   {Dtype::i64, "i64"}, {Dtype::u8, "u8"},   {Dtype::u16, "u16"},
    {Dtype::u32, "u32"}, {Dtype::u64, "u64"},   {Dtype::boolean, "bool"},
};

double half_to_f64(std::uint16_t h) {
    const double sign = (h & 0x8000U) != 0 ? -1.0 : 1.0;
    const int exponent = (h >> 10) & 0x1F;
    const int mantissa = h & 0x3FF;
    if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

}  // namespace

Uuid Uuid::random() {
    Uuid u;
    fill_random(u.bytes.data(), u.bytes.size());
    u.bytes[6] = static_cast<std::uint8_t>((u.bytes[6] & 0x0FU) | 0x40U);
    u.bytes[8] = static_cast<std::uint8_t>((u.bytes[8] & 0x3FU) | 0x80U);
    return u;
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
    if (text.size() != 36) return std::nullopt;
    Uuid u;
    std::size_t at = 0;
    for (std::size_t i = 0; i < 16; ++i) {
        if (dash_before(i) && text[at++] != '-') return std::nullopt;
        const int hi = hex_value(text[at]);
        const int lo = hex_value(text[at + 1]);
        if (hi < 0 || lo < 0) return std::nullopt;
        u.bytes[i] = static_cast<std::uint8_t>(hi * 16 + lo);
        at += 2;
    }
    return u;
}

std::string Uuid::text() const {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    out.reserve(36);
    for (std::size_t i = 0; i < 16; ++i) {
        if (dash_before(i)) out += '-';
        out += digits[bytes[i] >> 4];
        out += digits[bytes[i] & 15];
    }
    return out;
}

std::uint64_t random_u64() {
    std::uint64_t v = 0;
    while (v == 0) fill_random(&v, sizeof v);
    return v;
}

const char* lane_name(Lane lane) noexcept {
    switch (lane) {
        case Lane::live: return "live";
        case Lane::bulk: return "bulk";
        case Lane::file: return "file";
    }
    return "unknown";
}

const char* dtype_name(Dtype d) noexcept {
    for (const auto& entry : dtype_names)
        if (entry.dtype == d) return entry.name;
    return "unknown";
}

std::optional<Dtype> dtype_parse(std::string_view name) {
    for (const auto& entry : dtype_names)
        if (name == entry.name) return entry.dtype;
    return std::nullopt;
}

double dtype_to_f64(Dtype d, std::uint64_t bits) noexcept {
    switch (d) {
        case Dtype::f16: return half_to_f64(static_cast<std::uint16_t>(bits));
        case Dtype::bf16: return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
        case Dtype::f32: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        case Dtype::f64: return std::bit_cast<double>(bits);
        case Dtype::i8: return static_cast<std::int8_t>(bits);
        case Dtype::i16: return static_cast<std::int16_t>(bits);
        case Dtype::i32: return static_cast<std::int32_t>(bits);
        case Dtype::i64: return static_cast<double>(static_cast<std::int64_t>(bits));
        case Dtype::u8:
        case Dtype::u16:
        case Dtype::u32:
        case Dtype::u64: return static_cast<double>(bits);
        case Dtype::boolean: return bits != 0 ? 1.0 : 0.0;
    }
    return 0.0;
}

bool run_id_valid(std::string_view id) noexcept {
    if (id.empty() || id.size() > 128) return false;
    for (const char c : id) {
        const bool ok = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
                        c == '.' || c == '-';
        if (!ok) return false;
    }
    return true;
}

namespace {

// Length of the well-formed UTF-8 sequence at s[i], or 0 (Unicode 15, table 3-7).
std::size_t utf8_length(std::string_view s, std::size_t i) {
    const auto at = [&](std::size_t k) { return k < s.size() ? static_cast<unsigned char>(s[k]) : 0U; };
    const unsigned lead = at(i);
    if (lead < 0x80) return 1;
    const auto tail = [&](std::size_t k, unsigned lo = 0x80, unsigned hi = 0xBF) { return at(k) >= lo && at(k) <= hi; };
    if (lead >= 0xC2 && lead <= 0xDF) return tail(i + 1) ? 2 : 0;
    if (lead >= 0xE0 && lead <= 0xEF) {
        const unsigned lo = lead == 0xE0 ? 0xA0 : 0x80;
        const unsigned hi = lead == 0xED ? 0x9F : 0xBF;
        return tail(i + 1, lo, hi) && tail(i + 2) ? 3 : 0;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        const unsigned lo = lead == 0xF0 ? 0x90 : 0x80;
        const unsigned hi = lead == 0xF4 ? 0x8F : 0xBF;
        return tail(i + 1, lo, hi) && tail(i + 2) && tail(i + 3) ? 4 : 0;
    }
    return 0;
}

}  // namespace

bool metric_name_valid(std::string_view name) noexcept {
    if (name.empty() || name.size() > 256) return false;
    for (std::size_t i = 0; i < name.size();) {
        const auto c = static_cast<unsigned char>(name[i]);
        if (c < 0x20 || c == 0x7F) return false;
        const std::size_t n = utf8_length(name, i);
        if (n == 0) return false;
        i += n;
    }
    return true;
}

}  // namespace tally
