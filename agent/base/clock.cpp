// SPDX-License-Identifier: Apache-2.0
#include "agent/base/clock.hpp"

#include <ctime>

namespace tally {

namespace {
std::int64_t read_clock(clockid_t id) noexcept {
    timespec t{};
    ::clock_gettime(id, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
}  // namespace

std::int64_t wall_ns() noexcept { return read_clock(CLOCK_REALTIME); }
std::int64_t monotonic_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }

}  // namespace tally
