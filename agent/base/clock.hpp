// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The two clocks. Stages get `now` as an argument; only runners and adapters read these.

#include <cstdint>

namespace tally {

std::int64_t wall_ns() noexcept;       // CLOCK_REALTIME; only ever shown and stored, never compared for order
std::int64_t monotonic_ns() noexcept;  // CLOCK_MONOTONIC; timers and ages

}  // namespace tally
