// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/row_list.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tally::intake {

namespace {

template <class T>
void gather_as(const std::uint8_t* in, const std::uint32_t* order, std::size_t n, std::uint8_t* out) {
    for (std::size_t i = 0; i < n; ++i) std::memcpy(out + i * sizeof(T), in + order[i] * sizeof(T), sizeof(T));
}

constexpr std::size_t radix_from = 512;
constexpr unsigned radix_bits = 11;

// By the upper half of the keys, lowest digit first; each pass keeps the order of equal ones.
void radix_sort(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& spare, std::uint32_t highest) {
    spare.resize(keys.size());
    for (unsigned shift = 32; shift < 64 && highest >> (shift - 32) != 0; shift += radix_bits) {
        std::size_t at[1U << radix_bits] = {};
        const auto digit = [&](std::uint64_t key) { return (key >> shift) & ((1U << radix_bits) - 1); };
        for (const std::uint64_t key : keys) ++at[digit(key)];
        std::size_t sum = 0;
        for (std::size_t& slot : at) sum += std::exchange(slot, sum);
        for (const std::uint64_t key : keys) spare[at[digit(key)]++] = key;
        keys.swap(spare);
    }
}

}  // namespace

void RowList::sort(ByteView rows) {
    const std::size_t n = rows.size() / 4;
    envs_.resize(n);
    order_.resize(n);
    if (n != 0) std::memcpy(envs_.data(), rows.data(), n * 4);
    for (std::uint32_t i = 0; i < n; ++i) order_[i] = i;
    if (std::is_sorted(envs_.begin(), envs_.end())) return;
    keys_.resize(n);
    for (std::uint64_t i = 0; i < n; ++i) keys_[i] = std::uint64_t{envs_[i]} << 32 | i;  // the position makes it stable
    if (n < radix_from)
        std::sort(keys_.begin(), keys_.end());
    else
        radix_sort(keys_, spare_, *std::max_element(envs_.begin(), envs_.end()));
    for (std::size_t i = 0; i < n; ++i) {
        envs_[i] = static_cast<std::uint32_t>(keys_[i] >> 32);
        order_[i] = static_cast<std::uint32_t>(keys_[i]);
    }
}

std::size_t RowList::piece_end(std::size_t first) const {
    const std::uint64_t range_end = (std::uint64_t{envs_[first]} / parcel::tile_envs_max + 1) * parcel::tile_envs_max;
    const std::size_t last = std::min(envs_.size(), first + parcel::tile_envs_max);
    return static_cast<std::size_t>(std::lower_bound(envs_.begin() + static_cast<std::ptrdiff_t>(first),
                                                     envs_.begin() + static_cast<std::ptrdiff_t>(last), range_end) -
                                    envs_.begin());
}

void RowList::gather(const std::uint8_t* vector, std::uint32_t width, std::size_t first, std::size_t n,
                     std::uint8_t* out) const {
    const std::uint32_t* order = order_.data() + first;
    switch (width) {
        case 1: return gather_as<std::uint8_t>(vector, order, n, out);
        case 2: return gather_as<std::uint16_t>(vector, order, n, out);
        case 4: return gather_as<std::uint32_t>(vector, order, n, out);
        default: return gather_as<std::uint64_t>(vector, order, n, out);
    }
}

std::vector<parcel::EnvCount> RowList::counts(std::size_t first, std::size_t last, std::uint32_t env_base,
                                              std::uint32_t times) const {
    std::vector<parcel::EnvCount> out;
    out.reserve(last - first);
    for (std::size_t i = first; i < last; ++i) {
        const std::uint32_t env = env_base + envs_[i];
        if (out.empty() || out.back().env != env) out.push_back({env, 0});
        out.back().points += times;
    }
    return out;
}

}  // namespace tally::intake
