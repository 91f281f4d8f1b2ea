// SPDX-License-Identifier: Apache-2.0
#include "agent/ring/mapping.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tally::ring {

namespace {

std::unexpected<Refused> refuse(Refusal code, std::string text) {
    return std::unexpected(Refused{code, std::move(text)});
}

bool reserved_is_zero(const IdentityPart& identity) {
    for (const std::uint8_t b : identity.reserved)
        if (b != 0) return false;
    return true;
}

bool read_identity(int fd, std::uint64_t at, IdentityPart& out) {
    return ::pread(fd, &out, sizeof(out), static_cast<off_t>(at)) == static_cast<ssize_t>(sizeof(out));
}

// The control part begins where the data ends, and the file does not say where: every power of two that leaves a valid
// registry size is tried. What a client puts there to confuse this harms only its own ring.
bool find_identity(int fd, std::uint64_t file_bytes, IdentityPart& out) {
    for (std::uint64_t data = data_bytes_min; data <= data_bytes_max; data *= 2) {
        if (data + control_bytes > file_bytes || !sizes_valid(data, file_bytes - data - control_bytes)) continue;
        IdentityPart found{};
        if (!read_identity(fd, data, found) || found.magic != magic) continue;
        if (found.data_bytes != data || found.registry_bytes != file_bytes - data - control_bytes) continue;
        out = found;
        return true;
    }
    return false;
}

Uuid uuid_of(const std::uint8_t (&bytes)[16]) {
    Uuid out;
    std::memcpy(out.bytes.data(), bytes, 16);
    return out;
}

}  // namespace

std::expected<RingFile, Refused> RingFile::check(Fd fd, std::uint32_t peer_uid) {
    constexpr int seals_wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    if (seals < 0) return refuse(Refusal::seals, "the descriptor is not a memfd that allows sealing");
    if ((seals & seals_wanted) != seals_wanted || (seals & F_SEAL_WRITE) != 0)
        return refuse(Refusal::seals, "the ring must be sealed against shrinking, growing and further seals, and writable");
    // Pages of hugetlbfs come from a pool that may be empty at the next fault, which would be a SIGBUS.
    struct statfs fs {};
    if (::fstatfs(fd.get(), &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return refuse(Refusal::seals, "the ring must be an ordinary memfd, not hugetlb");
    struct stat st {};
    if (::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) return refuse(Refusal::size, "the ring's file cannot be read");
    if (peer_uid != 0 && st.st_uid != peer_uid)
        return refuse(Refusal::owner, "the ring belongs to user " + std::to_string(st.st_uid) + ", the peer is user " +
                                          std::to_string(peer_uid));
    RingFile out;
    out.bytes = static_cast<std::uint64_t>(st.st_size);
    if (st.st_size <= 0 || out.bytes > data_bytes_max + control_bytes + registry_bytes_max)
        return refuse(Refusal::size, "a ring of " + std::to_string(out.bytes) + " bytes is larger than the format allows");
    if (!find_identity(fd.get(), out.bytes, out.identity))
        return refuse(Refusal::size, "no identity part fits the file size of " + std::to_string(out.bytes) + " bytes");
    if (out.identity.version != layout_version)
        return refuse(Refusal::version, "ring layout version " + std::to_string(out.identity.version) +
                                            "; this agent knows " + std::to_string(layout_version));
    const bool kind_known = out.identity.kind == RingKind::scalar || out.identity.kind == RingKind::block;
    if (out.identity.control_bytes != control_bytes || !kind_known || !reserved_is_zero(out.identity) ||
        uuid_of(out.identity.ring_uuid).is_nil() || uuid_of(out.identity.producer_uuid).is_nil())
        return refuse(Refusal::identity, "the ring's identity part makes no sense");
    out.key = {static_cast<std::uint64_t>(st.st_dev), static_cast<std::uint64_t>(st.st_ino)};
    out.fd = std::move(fd);
    return out;
}

std::expected<Mapping, Refused> Mapping::open(RingFile file) {
    // Holes would be filled by faults, which cannot fail politely; here running out of memory is an answer.
    int rc = 0;
    do {
        rc = ::fallocate(file.fd.get(), 0, 0, static_cast<off_t>(file.bytes)) == 0 ? 0 : -errno;
    } while (rc == -EINTR);
    Pages pages;
    if (rc == 0)
        rc = map_pages(file.fd.get(), file.identity.data_bytes, file.identity.registry_bytes, Access::consumer, pages);
    if (rc != 0)
        return refuse(Refusal::memory, std::string("the agent cannot hold the ring in memory: ") + std::strerror(-rc));
    return Mapping(std::move(file), pages);
}

std::expected<Mapping, Refused> Mapping::open(Fd fd, std::uint32_t peer_uid) {
    auto file = RingFile::check(std::move(fd), peer_uid);
    if (!file) return std::unexpected(std::move(file.error()));
    return open(std::move(*file));
}

Mapping::Mapping(Mapping&& other) noexcept
    : file_(std::move(other.file_)), pages_(std::exchange(other.pages_, Pages{})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        unmap_pages(pages_);
        file_ = std::move(other.file_);
        pages_ = std::exchange(other.pages_, Pages{});
    }
    return *this;
}

Mapping::~Mapping() { unmap_pages(pages_); }

Uuid Mapping::ring_uuid() const { return uuid_of(file_.identity.ring_uuid); }
Uuid Mapping::producer_uuid() const { return uuid_of(file_.identity.producer_uuid); }

}  // namespace tally::ring
