// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What the spool costs alone: part of the limit of `ingest`.

#include <string>

namespace tally::bench {

// CPU-seconds per byte of a durable append.
double spool_cost(const std::string& dir, bool quick);

}  // namespace tally::bench
