// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Maps the file of a ring: the data area twice in a row, so that no record wraps, then control and registry.
// Flow    Both sides use it; nothing here checks content. The agent maps data and registry read-only.
// Owns    Pages is a plain handle: whoever mapped it calls unmap_pages once.
// Errors  Negative errno; nothing stays mapped then.
//
// libc only, no libstdc++: the client library includes this.

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "agent/ring/layout.hpp"

namespace tally::ring {

inline constexpr std::size_t huge_page_bytes = 2U << 20;

struct Pages {
    void* reserved = nullptr;  // the whole address range, also its slack
    std::size_t reserved_bytes = 0;
    std::uint8_t* data = nullptr;
    Control* control = nullptr;
    std::uint8_t* registry = nullptr;
    std::uint64_t data_bytes = 0;
    std::uint32_t registry_bytes = 0;

    std::uint64_t file_bytes() const { return data_bytes + control_bytes + registry_bytes; }
};

constexpr bool sizes_valid(std::uint64_t data_bytes, std::uint64_t registry_bytes) {
    return data_bytes >= data_bytes_min && data_bytes <= data_bytes_max && (data_bytes & (data_bytes - 1)) == 0 &&
           registry_bytes >= 4096 && registry_bytes <= registry_bytes_max && registry_bytes % 4096 == 0;
}

inline void unmap_pages(Pages& pages) {
    if (pages.reserved != nullptr) ::munmap(pages.reserved, pages.reserved_bytes);
    pages = Pages{};
}

enum class Access { producer, consumer };

inline int map_pages(int fd, std::uint64_t data_bytes, std::uint32_t registry_bytes, Access access, Pages& out) {
    out = Pages{};
    if (!sizes_valid(data_bytes, registry_bytes)) return -EINVAL;
    const bool huge = data_bytes >= huge_page_bytes;
    const std::size_t used = 2 * data_bytes + control_bytes + registry_bytes;
    out.reserved_bytes = used + (huge ? huge_page_bytes : 0);
    void* base = ::mmap(nullptr, out.reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return -errno;
    out.reserved = base;
    std::uintptr_t at = reinterpret_cast<std::uintptr_t>(base);
    if (huge) at = (at + huge_page_bytes - 1) & ~(std::uintptr_t{huge_page_bytes} - 1);
    out.data = reinterpret_cast<std::uint8_t*>(at);
    out.control = reinterpret_cast<Control*>(out.data + 2 * data_bytes);
    out.registry = out.data + 2 * data_bytes + control_bytes;
    out.data_bytes = data_bytes;
    out.registry_bytes = registry_bytes;

    const int bulk = access == Access::producer ? PROT_READ | PROT_WRITE : PROT_READ;
    struct Part {
        void* to;
        std::size_t bytes;
        int prot;
        std::uint64_t offset;
    };
    const Part parts[] = {
        {out.data, data_bytes, bulk, 0},
        {out.data + data_bytes, data_bytes, bulk, 0},
        {out.control, control_bytes, PROT_READ | PROT_WRITE, data_bytes},
        {out.registry, registry_bytes, bulk, data_bytes + control_bytes},
    };
    for (const Part& p : parts) {
        if (::mmap(p.to, p.bytes, p.prot, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(p.offset)) == MAP_FAILED) {
            const int err = errno;
            unmap_pages(out);
            return -err;
        }
    }
    // Advice only: without transparent huge pages for shared memory it says EINVAL, and 4 KiB pages do.
    if (huge) ::madvise(out.data, 2 * data_bytes, MADV_HUGEPAGE);
    return 0;
}

}  // namespace tally::ring
