// SPDX-License-Identifier: Apache-2.0
#include "agent/base/hash.hpp"

#include <string>

#include <xxhash.h>

namespace tally {

std::uint64_t xxh3(ByteView bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

std::uint64_t series_seed(std::string_view run, const Uuid& producer, std::uint32_t attempt, Dtype dtype,
                          std::string_view metric) {
    std::string key;
    key.reserve(run.size() + metric.size() + 64);
    key.append(run).append("|").append(producer.text()).append("|").append(std::to_string(attempt)).append("|");
    key.append(dtype_name(dtype)).append("|").append(metric);
    return xxh3(key);
}

}  // namespace tally
