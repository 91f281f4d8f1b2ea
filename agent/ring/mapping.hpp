// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The agent's view of one offered ring: its descriptor checked, its pages mapped.
// Flow    AttachServer (or a descriptor kept by the service manager) -> Mapping -> Consumer.
// Format  agent/ring/LAYOUT.md, "File" and "Attach".
// Owns    The memfd and the mapping. Consumer borrows it.
// Invariants
//   I1  A Mapping never raises SIGBUS: all three seals are set, it is a tmpfs file, the size is exact, it has no holes.
//   I2  identity() is a private copy, checked; what the producer writes over the shared one later changes nothing.
//   I3  data and registry are mapped read-only; only ConsumerPart is written, and only through Consumer.
// Errors  Refused {code, sentence}: what the attach handshake answers.

#include <memory>
#include <string>

#include "agent/base/fd.hpp"
#include "agent/base/types.hpp"
#include "agent/ring/pages.hpp"

namespace tally::ring {

struct Refused {
    Refusal code = Refusal::none;
    std::string text;
};

// What the kernel says about a ring's file; two offers with equal values are the same ring.
struct FileKey {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    auto operator<=>(const FileKey&) const = default;
};

// What is known before anything is mapped or allocated, so that budgets can be asked first.
struct RingFile {
    Fd fd;
    FileKey key;
    IdentityPart identity{};
    std::uint64_t bytes = 0;

    // `peer_uid` is who offers it (SO_PEERCRED); root may offer anybody's.
    static std::expected<RingFile, Refused> check(Fd fd, std::uint32_t peer_uid);
};

class Mapping {
public:
    static std::expected<Mapping, Refused> open(RingFile file);
    // check + open, for rings that came without a budget to ask.
    static std::expected<Mapping, Refused> open(Fd fd, std::uint32_t peer_uid);

    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();

    const IdentityPart& identity() const { return file_.identity; }
    Uuid ring_uuid() const;
    Uuid producer_uuid() const;
    RingKind kind() const { return file_.identity.kind; }
    FileKey key() const { return file_.key; }
    std::uint64_t bytes() const { return file_.bytes; }
    int fd() const { return file_.fd.get(); }
    const Pages& pages() const { return pages_; }

private:
    Mapping(RingFile file, Pages pages) : file_(std::move(file)), pages_(pages) {}

    RingFile file_;
    Pages pages_;
};

}  // namespace tally::ring
