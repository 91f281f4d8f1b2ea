// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    How much memory this process's cgroup still allows, so that a ring that does not fit is refused in words
//         instead of the trainer being killed for touching it.
// Source  Linux: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
// Threads Any; nothing is kept. libc only, no allocation.

#include <cstdint>

namespace tally::client {

struct Headroom {
    std::uint64_t bytes = UINT64_MAX;  // UINT64_MAX: no limit, or none that can be read
    char cgroup[256] = {};             // the cgroup that has the least left, as /proc/self/cgroup names it
};

// The least that any cgroup on the way to the root leaves; page cache that the kernel can drop counts as free.
// `membership` is in the format of /proc/self/cgroup; `mounts` is where the hierarchies are mounted.
Headroom cgroup_headroom(const char* membership = "/proc/self/cgroup", const char* mounts = "/sys/fs/cgroup");

}  // namespace tally::client
