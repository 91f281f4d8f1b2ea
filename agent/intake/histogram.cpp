// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstring>

#include "agent/intake/stats_kernel.hpp"
#include "agent/parcel/clones.hpp"

namespace tally::intake {

namespace {

constexpr std::size_t bins_all = 65536;
constexpr std::size_t group_bins = 32;
constexpr std::size_t block_values = 512;

// Infinity and NaN: every exponent bit is set, which needs 8 of the 16 bits behind the sign.
bool bin_finite(std::size_t bin) { return (bin & 0x7F80) != 0x7F80; }

TALLY_CLONES void keys_of(const double* __restrict values, std::size_t n, std::uint16_t* __restrict keys) {
    constexpr double largest = FLT_MAX;
    for (std::size_t i = 0; i < n; ++i) {
        const double x = values[i];
        const bool finite = x - x == 0;
        const double clamped = x > largest ? largest : (x < -largest ? -largest : x);
        const auto f = static_cast<float>(finite ? clamped : x);
        keys[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(f) >> 16);
    }
}

}  // namespace

Histogram::Histogram() : counts_(2 * bins_all), touched_(bins_all / group_bins) {}

// `stride` in keys: 2 picks the upper halves of f32 where they lie.
void Histogram::add_keys(const std::uint16_t* keys, std::size_t n, std::size_t stride) {
    std::uint32_t* counts = counts_.data();
    std::uint8_t* touched = touched_.data();
    const auto key_at = [&](std::size_t i) -> std::size_t {
        std::uint16_t k;
        std::memcpy(&k, reinterpret_cast<const std::uint8_t*>(keys) + i * stride * 2, 2);
        return k;
    };
    std::size_t i = 0;
    for (; i + 2 <= n; i += 2) {
        const std::size_t a = key_at(i);
        const std::size_t b = key_at(i + 1);
        ++counts[2 * a];
        ++counts[2 * b + 1];
        touched[a / group_bins] = 1;
        touched[b / group_bins] = 1;
    }
    if (i == n) return;
    ++counts[2 * key_at(i)];
    touched[key_at(i) / group_bins] = 1;
}

void Histogram::add(const std::uint8_t* values, Dtype dtype, std::uint32_t n) {
    if (dtype == Dtype::f32) return add_keys(reinterpret_cast<const std::uint16_t*>(values + 2), n, 2);
    if (dtype == Dtype::bf16) return add_keys(reinterpret_cast<const std::uint16_t*>(values), n, 1);
    alignas(64) double block[block_values];
    alignas(64) std::uint16_t keys[block_values];
    const std::uint32_t width = dtype_width(dtype);
    for (std::uint32_t at = 0; at < n; at += block_values) {
        const std::size_t here = std::min<std::size_t>(block_values, n - at);
        to_f64(values + std::size_t{at} * width, dtype, here, block);
        keys_of(block, here, keys);
        add_keys(keys, here, 1);
    }
}

void Histogram::take_group(std::size_t group, std::vector<std::uint16_t>& bins, std::vector<std::uint32_t>& counts) {
    std::uint32_t sums[group_bins];
    std::uint32_t* pairs = counts_.data() + 2 * group * group_bins;
    for (std::size_t k = 0; k < group_bins; ++k) sums[k] = pairs[2 * k] + pairs[2 * k + 1];
    std::fill_n(pairs, 2 * group_bins, 0U);
    touched_[group] = 0;
    if (!bin_finite(group * group_bins)) return;  // 128 bins share an exponent, so a group is finite or is not
    for (std::size_t k = 0; k < group_bins; ++k) {
        if (sums[k] == 0) continue;
        bins.push_back(static_cast<std::uint16_t>(group * group_bins + k));
        counts.push_back(sums[k]);
    }
}

void Histogram::take(std::vector<std::uint16_t>& bins, std::vector<std::uint32_t>& counts) {
    for (std::size_t eight = 0; eight < touched_.size(); eight += 8) {
        std::uint64_t any;
        std::memcpy(&any, touched_.data() + eight, sizeof any);
        for (; any != 0; any &= any - 1)  // a touched byte is 1, so the lowest bit set is its position x 8
            take_group(eight + static_cast<std::size_t>(std::countr_zero(any)) / 8, bins, counts);
    }
}

}  // namespace tally::intake
