// SPDX-License-Identifier: Apache-2.0
#include "tools/reconcile/suspects.hpp"

#include <bit>
#include <cstdio>

#include "agent/base/hash.hpp"

namespace tally::reconcile {

namespace {

// The inverse of an odd factor modulo 2^64, by Newton's iteration.
constexpr std::uint64_t inverse(std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
}
static_assert(inverse(0xff51afd7ed558ccdULL) * 0xff51afd7ed558ccdULL == 1);

std::string hex(std::uint64_t bits, Dtype dtype) {
    char text[96];
    std::snprintf(text, sizeof text, "%s bits 0x%0*llx (%.9g)", dtype_name(dtype), static_cast<int>(2 * dtype_width(dtype)),
                  static_cast<unsigned long long>(bits), dtype_to_f64(dtype, bits));
    return text;
}

bool fits(std::uint64_t bits, Dtype dtype) {
    if (dtype == Dtype::boolean) return bits <= 1;
    const std::uint32_t width = dtype_width(dtype);
    return width == 8 || bits >> (8 * width) == 0;
}

// What must be added to bits before hashing.
std::uint64_t base_of(std::uint64_t seed, std::uint32_t env, std::int64_t step) {
    return seed + env * hash_env_factor + static_cast<std::uint64_t>(step) * hash_step_factor;
}

std::optional<Suspect> altered(const std::vector<FoundPoint>& found, std::uint64_t seed, Dtype dtype, std::uint64_t difference) {
    std::optional<Suspect> other;
    for (const FoundPoint& p : found) {
        const std::uint64_t base = base_of(seed, p.env, p.step);
        const std::uint64_t bits = int_hash64_inverse(int_hash64(p.bits + base) + difference) - base;
        if (!fits(bits, dtype)) continue;
        const int flipped = std::popcount(bits ^ p.bits);
        if (flipped != 1 && dtype_width(dtype) == 8) continue;
        Suspect s{{p.env, p.step}, hex(bits, dtype), hex(p.bits, dtype)};
        if (flipped == 1) {
            s.found += ", bit " + std::to_string(std::countr_zero(bits ^ p.bits)) + " flipped";
            return s;
        }
        if (!other) other = std::move(s);
    }
    return other;
}

}  // namespace

std::uint64_t int_hash64_inverse(std::uint64_t h) {
    h ^= h >> 33;
    h *= inverse(0xc4ceb9fe1a85ec53ULL);
    h ^= h >> 33;
    h *= inverse(0xff51afd7ed558ccdULL);
    h ^= h >> 33;
    return h ^ 0x4CF2D2BAAE6DA887ULL;
}

std::optional<Suspect> find_suspect(const std::vector<FoundPoint>& found, const std::vector<Coordinates>& missing, std::uint64_t seed,
                                    Dtype dtype, std::uint64_t points_expected, std::uint64_t hash_expected) {
    std::uint64_t hash = 0;
    for (const FoundPoint& p : found) hash += int_hash64(p.bits + base_of(seed, p.env, p.step));
    const std::uint64_t difference = hash_expected - hash;
    if (found.size() == points_expected) return altered(found, seed, dtype, difference);
    if (found.size() == points_expected + 1) {
        for (const FoundPoint& p : found)
            if (int_hash64(p.bits + base_of(seed, p.env, p.step)) + difference == 0)
                return Suspect{{p.env, p.step}, "once", hex(p.bits, dtype) + ", twice"};
        return std::nullopt;
    }
    if (found.size() + 1 == points_expected) {
        for (const Coordinates& c : missing) {
            const std::uint64_t bits = int_hash64_inverse(difference) - base_of(seed, c.env, c.step);
            if (fits(bits, dtype)) return Suspect{c, hex(bits, dtype), "no such point"};
        }
    }
    if (!missing.empty()) return Suspect{missing.front(), "a point (" + std::to_string(missing.size()) + " missing)", "no such point"};
    return std::nullopt;
}

}  // namespace tally::reconcile
