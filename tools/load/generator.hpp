// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The values of `tallyman load`: by formula (shape random), or a CartPole trace under a random policy (shape rl).
// Flow    load, bench -> fill() -> client library. Anyone can recompute a point of shape random from its coordinates.
// Threads One generator per producer thread.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/types.hpp"

namespace tally::load {

// The formula: metric, env and step count from 0; arithmetic modulo 2^64.
constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t metric, std::uint64_t env, std::uint64_t step) {
    std::uint64_t z = seed ^ ((metric + 1) * 0x9E3779B97F4A7C15ULL) ^ ((env + 1) * 0xC2B2AE3D27D4EB4FULL) ^
                      ((step + 1) * 0x165667B19E3779F9ULL);
    z += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}
constexpr float random_f32(std::uint64_t seed, std::uint64_t metric, std::uint64_t env, std::uint64_t step) {
    return static_cast<float>(mix(seed, metric, env, step) >> 40) / 16777216.0F;
}
constexpr double random_f64(std::uint64_t seed, std::uint64_t metric, std::uint64_t env, std::uint64_t step) {
    return static_cast<double>(mix(seed, metric, env, step) >> 11) / 9007199254740992.0;
}

// Episodes: environment e has episodes of 64 steps if e is even, of 128 if odd, from step 0.
constexpr std::uint32_t episode_length(std::uint32_t env) { return env % 2 == 0 ? 64 : 128; }

enum class Shape : std::uint8_t { random, rl };

class Generator {
public:
    Generator(Shape shape, std::uint64_t seed, std::uint32_t metrics, std::uint32_t env_first, std::uint32_t env_count,
              Dtype dtype);
    // Values of all metrics and environments at one step, metric-major, dtype f32 or f64. Shape rl needs ascending steps.
    void fill(std::uint64_t step, void* out);

private:
    void fill_random(std::uint64_t step, void* out) const;
    void fill_rl(std::uint64_t step, void* out);
    void advance_rl(std::uint64_t step);

    Shape shape_;
    std::uint64_t seed_;
    std::uint32_t metrics_;
    std::uint32_t env_first_;
    std::uint32_t env_count_;
    Dtype dtype_;
    std::vector<std::vector<float>> trace_;  // the 20 columns of shape rl at the current step
};

}  // namespace tally::load
