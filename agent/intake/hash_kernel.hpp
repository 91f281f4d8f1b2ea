// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Sums of point_hash (agent/base/hash.hpp) over one vector of values: the ledger's H.

#include <cstdint>

#include "agent/base/types.hpp"

namespace tally::intake {

// Values of environments env_first, env_first + 1, ... at one step.
std::uint64_t hash_dense(const std::uint8_t* values, Dtype dtype, std::uint32_t n, std::uint64_t seed,
                         std::uint32_t env_first, std::int64_t step);
// Value i belongs to environment env_base + envs[i].
std::uint64_t hash_rows(const std::uint8_t* values, Dtype dtype, const std::uint32_t* envs, std::uint32_t n,
                        std::uint64_t seed, std::uint32_t env_base, std::int64_t step);

}  // namespace tally::intake
