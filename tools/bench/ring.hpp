// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What the ring costs alone: part of the limit of `ingest`.

#include "tools/bench/stages.hpp"

namespace tally::bench {

// CPU-seconds per point of both sides: a copy in by the producer, a copy out by the consumer.
double ring_cost(const Shape& shape, bool quick);

}  // namespace tally::bench
