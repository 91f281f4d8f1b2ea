// SPDX-License-Identifier: Apache-2.0
#include "agent/client/cgroup.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace tally::client {

namespace {

constexpr std::size_t path_max = 4096;
constexpr std::size_t text_max = 8192;  // memory.stat is 1-2 KiB

struct Hierarchy {
    const char* controller;  // in /proc/self/cgroup; "" is the unified one
    const char* folder;      // below the mounts; "" is the mounts folder itself
    const char* limit;
    const char* usage;
    const char* droppable;   // key in memory.stat
};
constexpr Hierarchy hierarchies[] = {
    {"", "", "memory.max", "memory.current", "inactive_file"},
    {"", "/unified", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

bool read_text(const char* path, char (&out)[text_max]) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    std::size_t have = 0;
    while (have < text_max - 1) {
        const ssize_t n = ::read(fd, out + have, text_max - 1 - have);
        if (n <= 0) break;
        have += static_cast<std::size_t>(n);
    }
    ::close(fd);
    out[have] = 0;
    return have != 0;
}

// "max", and what v1 writes for it (2^63 less a page), are no limit.
bool read_number(const char* folder, const char* file, std::uint64_t* out) {
    char path[path_max];
    char text[text_max];
    if (::snprintf(path, sizeof path, "%s/%s", folder, file) >= static_cast<int>(sizeof path) || !read_text(path, text)) return false;
    char* end = text;
    *out = ::strtoull(text, &end, 10);
    return end != text && *out < (1ULL << 62);
}

std::uint64_t droppable_cache(const char* folder, const char* key) {
    char path[path_max];
    char text[text_max];
    if (::snprintf(path, sizeof path, "%s/memory.stat", folder) >= static_cast<int>(sizeof path) || !read_text(path, text)) return 0;
    const std::size_t n = ::strlen(key);
    for (const char* line = text; line != nullptr; line = ::strchr(line, '\n')) {
        if (*line == '\n') ++line;
        if (::strncmp(line, key, n) == 0 && line[n] == ' ') return ::strtoull(line + n + 1, nullptr, 10);
    }
    return 0;
}

void consider(const Hierarchy& h, const char* folder, const char* cgroup, Headroom* least) {
    std::uint64_t limit = 0;
    std::uint64_t usage = 0;
    if (!read_number(folder, h.limit, &limit) || !read_number(folder, h.usage, &usage)) return;
    const std::uint64_t cache = droppable_cache(folder, h.droppable);
    const std::uint64_t held = usage > cache ? usage - cache : 0;
    const std::uint64_t left = limit > held ? limit - held : 0;
    if (left >= least->bytes) return;
    least->bytes = left;
    ::snprintf(least->cgroup, sizeof least->cgroup, "%.255s", cgroup[0] == 0 ? "/" : cgroup);
}

// From the process's own cgroup up to the root. In a container the names may lead outside of what is mounted: levels that
// are not there are passed over, and the root of the mount is then the container's own.
void climb(const Hierarchy& h, const char* mounts, char* cgroup, Headroom* least) {
    for (;;) {
        char folder[path_max];
        if (::snprintf(folder, sizeof folder, "%s%s%s", mounts, h.folder, cgroup) < int{sizeof folder})
            consider(h, folder, cgroup, least);
        char* slash = ::strrchr(cgroup, '/');
        if (slash == nullptr || cgroup[0] == 0) return;
        *slash = 0;
    }
}

// Is `wanted` one of the comma-separated `list`?
bool listed(const char* list, std::size_t size, const char* wanted) {
    const std::size_t n = ::strlen(wanted);
    for (std::size_t at = 0; at <= size;) {
        std::size_t end = at;
        while (end < size && list[end] != ',') ++end;
        if (end - at == n && ::memcmp(list + at, wanted, n) == 0) return true;
        at = end + 1;
    }
    return false;
}

}  // namespace

Headroom cgroup_headroom(const char* membership, const char* mounts) {
    Headroom least;
    char text[text_max];
    if (!read_text(membership, text)) return least;
    char* rest = nullptr;
    for (char* line = ::strtok_r(text, "\n", &rest); line != nullptr; line = ::strtok_r(nullptr, "\n", &rest)) {
        char* controllers = ::strchr(line, ':');  // id:controllers:/path
        char* path = controllers == nullptr ? nullptr : ::strchr(controllers + 1, ':');
        if (path == nullptr || path[1] != '/') continue;
        const auto size = static_cast<std::size_t>(path - controllers - 1);
        for (const Hierarchy& h : hierarchies) {
            if (!listed(controllers + 1, size, h.controller)) continue;
            char cgroup[path_max];
            if (::snprintf(cgroup, sizeof cgroup, "%s", path[2] == 0 ? "" : path + 1) < static_cast<int>(sizeof cgroup))
                climb(h, mounts, cgroup, &least);
        }
    }
    return least;
}

}  // namespace tally::client
