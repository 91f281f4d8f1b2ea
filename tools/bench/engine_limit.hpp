// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The limit of `store`: embedded ClickHouse inserting the same rows from memory.
// Threads The engine runs in a forked child: one storage path per process, and its destructors are not safe to run.

#include <expected>
#include <string>

namespace tally::bench {

// Points/s until the merges that the inserts caused are over.
std::expected<double, std::string> engine_limit(const std::string& dir, bool quick);

}  // namespace tally::bench
