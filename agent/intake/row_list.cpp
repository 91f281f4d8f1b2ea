// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/row_list.hpp"

#include <algorithm>
#include <cstring>

namespace tally::intake {

namespace {

template <class T>
void gather_as(const std::uint8_t* in, const std::uint32_t* order, std::size_t n, std::uint8_t* out) {
    for (std::size_t i = 0; i < n; ++i) std::memcpy(out + i * sizeof(T), in + order[i] * sizeof(T), sizeof(T));
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
    std::sort(keys_.begin(), keys_.end());
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
