// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    `tallyman load`: deterministic producers that log through the client library.
// Flow    generator -> client library -> agent.
// Threads One per producer; load() joins them.
// Errors  A sentence per producer that failed; the others go on.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/load/generator.hpp"

namespace tally::load {

struct Options {
    std::string socket;  // empty: the client's default
    std::string run;     // empty: a new one
    std::string project = "load";
    std::uint32_t envs = 1000;
    std::uint32_t metrics = 20;
    std::uint32_t rl_steps = 1;
    std::uint32_t env_steps = 64;
    std::uint32_t producers = 1;
    std::uint32_t frame_steps = 1;  // K steps per log call; divides env_steps
    double points_per_s = 0;        // 0: as fast as it goes
    Dtype dtype = Dtype::f32;
    std::uint64_t seed = 1;
    Shape shape = Shape::random;
    std::int64_t flush_timeout_ns = 60'000'000'000;
    int flush_level = 1;  // 0 none, 1 disk, 2 receiver, 3 store
};

struct Totals {
    std::string run;
    std::uint64_t points = 0;
    std::uint64_t dropped = 0;
    std::uint64_t headers = 0;
    double seconds = 0;          // logging
    double seconds_to_level = 0;  // until flush_level
    std::vector<std::string> errors;
};

Totals load(const Options& options);

// The exact totals the store must show for these options.
std::uint64_t points_of(const Options& options);
std::uint64_t headers_of(const Options& options);

}  // namespace tally::load
