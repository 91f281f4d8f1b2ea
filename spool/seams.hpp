// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What a test may replace in a spool: the write engine, randomness, the wall clock.

#include <functional>
#include <memory>

#include "spool/engine.hpp"
#include "spool/spool.hpp"

namespace tally::spool {

struct Seams {
    // Given the engine that was chosen, returns the one to use: itself, or one that wraps it.
    std::function<std::unique_ptr<WriteEngine>(std::unique_ptr<WriteEngine>)> wrap_engine;
    std::function<std::uint64_t()> random;      // start ids and salts
    std::function<std::int64_t()> wall_ns;      // created_ns
    std::function<Uuid()> uuid;                 // of a new spool
    // Asked before a segment is made; an errno makes it fail.
    std::function<int(Lane)> refuse_segment;
};
Seams real_seams();

Result<std::unique_ptr<Spool>> open_with(const Options& options, const Seams& seams);

}  // namespace tally::spool
