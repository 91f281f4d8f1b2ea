// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Named places where a crash test may end the process, compiled in always.
// Flow    TALLYMAN_FAULT_POINT=<name>[:count] -> the count-th passing of that name is SIGKILL.
// Threads Any; the hook is for tests of one thread.

#include <functional>
#include <string_view>

namespace tally::spool {

// Every name there is; the crash test walks this list.
inline constexpr const char* fault_points[] = {
    "segment-created", "header-written", "dir-synced",  "record-written",  "commit-written",
    "fsync-done",      "acks-written",   "unlink-done", "recovery-judged", "recovery-header-written",
};

void fault_point(const char* name) noexcept;

// Called at every point instead of the environment's rule; empty puts that back.
void set_fault_hook(std::function<void(std::string_view)> hook);

}  // namespace tally::spool
