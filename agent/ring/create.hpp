// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Makes a new ring: memfd, size, pages, seals, identity. The client's side of "File" in LAYOUT.md.
// Owns    On success the caller owns the descriptor and the pages.
// Errors  Negative errno, nothing left behind: -EFBIG (RLIMIT_FSIZE), -EMFILE, -ENOMEM or -ENOSPC (no memory), -ENOSYS.
//
// libc only, no libstdc++: the client library includes this.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/ring/pages.hpp"

namespace tally::ring {

struct CreateRequest {
    RingKind kind = RingKind::scalar;
    std::uint64_t data_bytes = 256 * 1024;
    std::uint32_t registry_bytes = 64 * 1024;
    std::uint8_t ring_uuid[16] = {};
    std::uint8_t producer_uuid[16] = {};
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::int64_t opened_ns = 0;
};

// ftruncate beyond RLIMIT_FSIZE raises SIGXFSZ, which would kill the trainer.
inline bool file_size_allowed(std::uint64_t bytes) {
    struct rlimit limit {};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return true;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

inline void write_identity(const CreateRequest& request, Control& control) {
    IdentityPart identity{};
    identity.magic = magic;
    identity.version = layout_version;
    identity.control_bytes = control_bytes;
    identity.data_bytes = request.data_bytes;
    identity.registry_bytes = request.registry_bytes;
    identity.kind = request.kind;
    std::memcpy(identity.ring_uuid, request.ring_uuid, 16);
    std::memcpy(identity.producer_uuid, request.producer_uuid, 16);
    identity.pid = request.pid;
    identity.tid = request.tid;
    identity.opened_ns = request.opened_ns;
    std::memcpy(&control.identity, &identity, sizeof(identity));
}

inline int fill_ring_file(int fd, const CreateRequest& request, Pages& out) {
    const std::uint64_t bytes = request.data_bytes + control_bytes + request.registry_bytes;
    if (!file_size_allowed(bytes)) return -EFBIG;
    if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return -errno;
    if (const int rc = map_pages(fd, request.data_bytes, request.registry_bytes, Access::producer, out); rc != 0) return rc;
#ifdef MADV_POPULATE_WRITE
    // fallocate alone takes 4 KiB pages (huge ones need a fault in the advised range) and leaves both mappings to fault
    // page by page inside log calls. Failing here is harmless.
    ::madvise(out.data, 2 * request.data_bytes, MADV_POPULATE_WRITE);
#endif
    if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) return -errno;
    if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return -errno;
    // A forked child makes its own rings; without the mapping it cannot write into its parent's by mistake.
    if (::madvise(out.reserved, out.reserved_bytes, MADV_DONTFORK) != 0) return -errno;
    write_identity(request, *out.control);
    return 0;
}

inline int create_ring(const CreateRequest& request, int& fd_out, Pages& out) {
    out = Pages{};
    fd_out = -1;
    if (!sizes_valid(request.data_bytes, request.registry_bytes)) return -EINVAL;
    const int fd = ::memfd_create("tallyman-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -errno;
    const int rc = fill_ring_file(fd, request, out);
    if (rc != 0) {
        unmap_pages(out);
        ::close(fd);
        return rc;
    }
    fd_out = fd;
    return 0;
}

}  // namespace tally::ring
