// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The checksum of every format (XXH3-64, seed 0) and the value hash of the ledger.

#include <cstdint>
#include <string_view>

#include "agent/base/bytes.hpp"
#include "agent/base/types.hpp"

namespace tally {

std::uint64_t xxh3(ByteView bytes) noexcept;
inline std::uint64_t xxh3(std::string_view text) noexcept { return xxh3(as_bytes(text)); }

// ClickHouse's intHash64: the finaliser of MurmurHash3 behind one xor, so SQL computes the same number.
constexpr std::uint64_t int_hash64(std::uint64_t x) noexcept {
    x ^= 0x4CF2D2BAAE6DA887ULL;
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    x ^= x >> 33;
    return x;
}

inline constexpr std::uint64_t hash_env_factor = 0xD6E8FEB86659FD93ULL;
inline constexpr std::uint64_t hash_step_factor = 0x9E3779B97F4A7C15ULL;

// S of one series family: XXH3-64 of "run|producer|attempt|dtype|metric".
std::uint64_t series_seed(std::string_view run, const Uuid& producer, std::uint32_t attempt, Dtype dtype,
                          std::string_view metric);

// h(point). Sums modulo 2^64 do not depend on tiles, parcels, rows or order.
constexpr std::uint64_t point_hash(std::uint64_t bits, std::uint64_t seed, std::uint32_t env,
                                   std::int64_t step) noexcept {
    return int_hash64(bits + seed + env * hash_env_factor + static_cast<std::uint64_t>(step) * hash_step_factor);
}

// W of the ledger: sum over points of (2 * step + 1) * w(time, rl_step). One hash serves all values of a frame, and two times that
// changed places do not cancel. rl_step is 0 where none was given.
inline constexpr std::uint64_t hash_given = 0x165667B19E3779F9ULL;
constexpr std::uint64_t when_hash(std::uint64_t seed, std::int64_t time_ns, bool rl_given, std::int64_t rl_step) noexcept {
    return int_hash64(seed + static_cast<std::uint64_t>(time_ns) * hash_step_factor + static_cast<std::uint64_t>(rl_step) * hash_env_factor +
                      (rl_given ? hash_given : 0));
}
constexpr std::uint64_t when_weight(std::int64_t step) noexcept { return 2 * static_cast<std::uint64_t>(step) + 1; }
// Sum of when_weight over `steps` steps from `first`.
constexpr std::uint64_t when_weights(std::int64_t first, std::int64_t stride, std::uint64_t steps) noexcept {
    return steps * when_weight(first) + static_cast<std::uint64_t>(stride) * steps * (steps - 1);
}

}  // namespace tally
