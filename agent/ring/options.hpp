// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Settings of the ring side of the agent: `[agent] socket` and `[ring]`.

#include <cstdint>
#include <string>

namespace tally::ring {

struct Options {
    // Where trainers dial. Everyone on the host may connect by default: what a user may use is bounded by user_bytes_max.
    std::string socket = "/run/tallyman/agent.sock";
    std::uint32_t socket_mode = 0666;
    // Bytes of all rings of one user; 0 = total_bytes_max. Smaller isolates users from one another.
    std::uint64_t user_bytes_max = 0;
    // Bytes of all rings; 0 = 1/8 of the machine's memory.
    std::uint64_t total_bytes_max = 0;
    // How often rings are looked at while records flow, and while they trickle. Shorter = fresher and more CPU.
    std::int64_t poll_busy_ns = 5'000'000;
    std::int64_t poll_idle_ns = 20'000'000;
    // Silence after which the agent announces sleep and waits for a producer's wake.
    std::int64_t sleep_after_ns = 10'000'000'000;
};

}  // namespace tally::ring
