// SPDX-License-Identifier: Apache-2.0
#include "agent/ring/attach.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/base/log.hpp"

namespace tally::ring {

namespace {

constexpr std::uint64_t listener_tag = 0;
constexpr int events_per_poll = 64;
constexpr int accepts_per_poll = 64;

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path))
        return fail(Code::invalid, "socket path is empty or longer than 107 bytes", path.size());
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

Fd seqpacket() { return Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

int connect_to(const sockaddr_un& address) {
    const Fd probe = seqpacket();
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    return ::connect(probe.get(), to, sizeof(address)) == 0 ? 0 : errno;
}

// A file left by an agent that died is replaced; one that somebody serves, or that is no socket, is not.
Status clear_stale(const std::string& path, const sockaddr_un& address) {
    struct stat st {};
    if (::lstat(path.c_str(), &st) != 0) {
        if (errno == ENOENT) return {};
        return fail_errno("socket path");
    }
    if (!S_ISSOCK(st.st_mode)) return fail(Code::busy, "the socket path exists and is no socket");
    const int answer = connect_to(address);
    if (answer != ECONNREFUSED) return fail(Code::busy, "another agent serves this socket");
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("remove stale socket");
    return {};
}

bool watch(int epoll, int fd, std::uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool is_eventfd_like(int fd) {
    struct stat st {};
    // An anonymous inode has no file type; writing to a pipe, file or socket of the peer's choice is out of the question.
    return ::fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

}  // namespace

AttachServer::AttachServer(Fd listener, Fd epoll, std::string path, const Options& options)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      path_(std::move(path)),
      budget_(Budget::make({options.user_bytes_max, options.total_bytes_max})) {}

AttachServer::AttachServer(AttachServer&&) noexcept = default;

AttachServer::~AttachServer() {
    if (listener_ && !path_.empty()) ::unlink(path_.c_str());
}

Result<AttachServer> AttachServer::open(const std::string& path, const Options& options) {
    const auto address = address_of(path);
    if (!address) return std::unexpected(address.error());
    TALLY_TRY(clear_stale(path, *address));
    Fd listener = seqpacket();
    if (!listener) return fail_errno("socket");
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0)
        return fail_errno("bind the attach socket");
    if (::chmod(path.c_str(), static_cast<mode_t>(options.socket_mode)) != 0 || ::listen(listener.get(), 512) != 0) {
        const int err = errno;
        ::unlink(path.c_str());
        return fail_errno("listen on the attach socket", err);
    }
    return start(std::move(listener), path, options);
}

Result<AttachServer> AttachServer::adopt(Fd listener, const Options& options) {
    const int flags = ::fcntl(listener.get(), F_GETFL);
    if (flags < 0 || ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) return fail_errno("passed socket");
    return start(std::move(listener), "", options);
}

Result<AttachServer> AttachServer::start(Fd listener, std::string path, const Options& options) {
    Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll || !watch(epoll.get(), listener.get(), listener_tag)) return fail_errno("epoll");
    return AttachServer(std::move(listener), std::move(epoll), std::move(path), options);
}

std::vector<AttachEvent> AttachServer::poll(std::int64_t now_monotonic_ns) {
    std::vector<AttachEvent> events;
    for (const std::uint64_t id : std::exchange(broken_, {})) end(id, events);
    epoll_event ready[events_per_poll];
    const int n = ::epoll_wait(epoll_.get(), ready, events_per_poll, 0);
    for (int i = 0; i < n; ++i) {
        if (ready[i].data.u64 == listener_tag) {
            take_connections(now_monotonic_ns);
        } else {
            serve(ready[i].data.u64, events);
        }
    }
    end_late_hellos(now_monotonic_ns, events);
    return events;
}

void AttachServer::take_connections(std::int64_t now_ns) {
    for (int i = 0; i < accepts_per_poll; ++i) {
        Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE) shed_connection();
            return;
        }
        if (!take_connection(std::move(socket), now_ns)) ++refused_total_;
    }
}

// Out of descriptors: the caller is let go instead of spinning on a listener that stays readable.
void AttachServer::shed_connection() {
    log_warn("ring.attach.descriptors", {{"what", "no file descriptor left for a trainer; raise LimitNOFILE"}});
    spare_.reset();
    { const Fd dropped(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
    spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool AttachServer::take_connection(Fd socket, std::int64_t now_ns) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    auto& of_user = by_user_[peer.uid];
    if (connections_.size() >= connections_max || of_user >= connections_max / 2) {
        log_warn("ring.attach.connections", {{"uid", peer.uid}, {"connections", connections_.size()}});
        if (of_user == 0) by_user_.erase(peer.uid);
        return false;
    }
    const std::uint64_t id = next_id_++;
    if (!watch(epoll_.get(), socket.get(), id)) return false;
    ++of_user;
    Connection connection;
    connection.socket = std::move(socket);
    connection.uid = peer.uid;
    connection.pid = peer.pid;
    connection.since_ns = now_ns;
    connections_.emplace(id, std::move(connection));
    return true;
}

void AttachServer::serve(std::uint64_t id, std::vector<AttachEvent>& events) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    for (int i = 0; i < packets_per_poll; ++i) {
        Packet packet;
        const Received got = receive(found->second, packet);
        if (got == Received::nothing) return;
        if (got == Received::broken || !handle(id, found->second, packet, events)) return end(id, events);
    }
}

AttachServer::Received AttachServer::receive(const Connection& connection, Packet& packet) {
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
    iovec iov{&packet.message, sizeof(packet.message)};
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t n = ::recvmsg(connection.socket.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? Received::nothing : Received::broken;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (packet.fd_count < 2) {
                packet.fds[packet.fd_count++].reset(fd);
            } else {
                ::close(fd);
            }
        }
    }
    // The kernel closed what did not fit; a peer that sends more than two is not one of ours.
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return Received::broken;
    return n == static_cast<ssize_t>(sizeof(packet.message)) ? Received::packet : Received::broken;
}

bool AttachServer::handle(std::uint64_t id, Connection& connection, Packet& packet, std::vector<AttachEvent>& events) {
    const AttachMessage& m = packet.message;
    if (m.magic != attach_magic || m.text_bytes > sizeof(m.text)) return false;
    if (m.version != layout_version) {
        answer(id, AttachKind::refuse, m.cookie, Refusal::version,
               "attach version " + std::to_string(m.version) + "; this agent knows " + std::to_string(layout_version));
        return false;
    }
    if (!connection.hello) return connection.hello = m.kind == AttachKind::hello && packet.fd_count == 0;
    switch (m.kind) {
        case AttachKind::offer:
            if (packet.fd_count != 2 || ++connection.offers > offers_max) return false;
            offer(id, connection, packet, events);
            return true;
        case AttachKind::bye: return connection.bye = true;
        default: return false;
    }
}

void AttachServer::offer(std::uint64_t id, const Connection& connection, Packet& packet, std::vector<AttachEvent>& events) {
    const std::uint64_t cookie = packet.message.cookie;
    auto offered = check_offer(id, connection, packet);
    if (offered) {
        events.emplace_back(std::move(*offered));
        return;
    }
    log_warn("ring.attach.refused", {{"uid", connection.uid}, {"pid", connection.pid}, {"why", offered.error().text}});
    refuse(ConnectionId{id}, cookie, offered.error().code, offered.error().text);
}

std::expected<Offered, Refused> AttachServer::check_offer(std::uint64_t id, const Connection& connection, Packet& packet) {
    if (draining_) return std::unexpected(Refused{Refusal::draining, "the agent is stopping; offer again later"});
    auto offered = check_ring(std::move(packet.fds[0]), std::move(packet.fds[1]), connection.uid, connection.uid);
    if (!offered) return offered;
    offered->connection = ConnectionId{id};
    offered->cookie = packet.message.cookie;
    offered->pid = connection.pid;
    return offered;
}

std::expected<Offered, Refused> AttachServer::restore(Fd ring, Fd wake) {
    struct stat st {};
    if (::fstat(ring.get(), &st) != 0) return std::unexpected(Refused{Refusal::identity, "the ring's file cannot be read"});
    // Who offered it was checked when it was accepted; its owner pays for it again.
    return check_ring(std::move(ring), std::move(wake), 0, st.st_uid);
}

std::expected<Offered, Refused> AttachServer::check_ring(Fd ring_fd, Fd wake, std::uint32_t checked_uid, std::uint32_t charged_uid) {
    if (!is_eventfd_like(wake.get())) return std::unexpected(Refused{Refusal::identity, "the second descriptor is no eventfd"});
    auto file = RingFile::check(std::move(ring_fd), checked_uid);
    if (!file) return std::unexpected(std::move(file.error()));
    auto charge = budget_->charge(file->key, charged_uid, file->bytes);
    if (!charge) return std::unexpected(std::move(charge.error()));
    auto ring = Mapping::open(std::move(*file));
    if (!ring) return std::unexpected(std::move(ring.error()));
    return Offered{ConnectionId{0}, 0, charged_uid, 0, std::move(*ring), std::move(wake), std::move(*charge)};
}

void AttachServer::accept(ConnectionId connection, std::uint64_t cookie) {
    answer(static_cast<std::uint64_t>(connection), AttachKind::accept, cookie, Refusal::none, "");
}

void AttachServer::refuse(ConnectionId connection, std::uint64_t cookie, Refusal code, std::string_view text) {
    ++refused_total_;
    answer(static_cast<std::uint64_t>(connection), AttachKind::refuse, cookie, code, text);
}

void AttachServer::answer(std::uint64_t id, AttachKind kind, std::uint64_t cookie, Refusal code, std::string_view text) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    AttachMessage m{};
    m.magic = attach_magic;
    m.version = static_cast<std::uint16_t>(layout_version);
    m.kind = kind;
    m.cookie = cookie;
    m.code = code;
    m.text_bytes = static_cast<std::uint32_t>(std::min(text.size(), sizeof(m.text)));
    std::memcpy(m.text, text.data(), m.text_bytes);
    if (::send(found->second.socket.get(), &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(m)))
        broken_.push_back(id);  // gone, or it does not read
}

void AttachServer::end(std::uint64_t id, std::vector<AttachEvent>& events) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    events.emplace_back(ConnectionEnded{ConnectionId{id}, found->second.bye});
    const auto user = by_user_.find(found->second.uid);
    if (--user->second == 0) by_user_.erase(user);
    connections_.erase(found);  // closing the socket takes it out of the epoll set
}

void AttachServer::end_late_hellos(std::int64_t now_ns, std::vector<AttachEvent>& events) {
    std::vector<std::uint64_t> late;
    for (const auto& [id, connection] : connections_)
        if (!connection.hello && now_ns - connection.since_ns > hello_within_ns) late.push_back(id);
    for (const std::uint64_t id : late) end(id, events);
}

}  // namespace tally::ring
