// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The agent's end of the attach socket: takes connections and offered rings, checks them, answers.
// Flow    client helper thread -> AttachServer -> Offered events -> agent/app -> accept() or refuse().
// Format  agent/ring/LAYOUT.md, "Attach".
// Threads One role (main). Waiting is the runner's business: wait_fd() is readable when poll() has something to do.
// Owns    The socket and its file; rings until they are handed out as events.
// Invariants
//   I1  An Offered ring passed every check of LAYOUT.md and is within the budgets; its Charge is part of the event.
//   I2  Whatever a peer sends costs at most its own connection: packets of a fixed size, at most two descriptors
//       each, bounded packets per poll, no waiting on a peer that does not read.
// Errors  open(): busy (somebody serves this socket), invalid (path too long), io / denied.
// Limits  connections_max in all, half of them for one user; offers_max per connection; 5 s to say hello.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "agent/ring/budget.hpp"
#include "agent/ring/mapping.hpp"
#include "agent/ring/options.hpp"

namespace tally::ring {

enum class ConnectionId : std::uint64_t {};

struct Offered {
    ConnectionId connection{};
    std::uint64_t cookie = 0;  // for accept / refuse
    std::uint32_t uid = 0;
    std::int32_t pid = 0;  // 0 where the peer's pid namespace is not visible
    Mapping ring;
    Fd wake;        // eventfd: producers write it; the agent waits on it while asleep
    Charge charge;  // keep as long as the ring is mapped
};
// After this, rings of the connection get no more answers. `bye`: a clean end, no death.
struct ConnectionEnded {
    ConnectionId connection{};
    bool bye = false;
};
using AttachEvent = std::variant<Offered, ConnectionEnded>;

class AttachServer {
public:
    static constexpr std::size_t connections_max = 4096;
    static constexpr std::uint32_t offers_max = 4096;
    static constexpr int packets_per_poll = 64;  // of one connection
    static constexpr std::int64_t hello_within_ns = 5'000'000'000;

    static Result<AttachServer> open(const std::string& path, const Options& options);
    // From a listening socket that was passed in (socket activation); its file is not removed at the end.
    static Result<AttachServer> adopt(Fd listener, const Options& options);
    AttachServer(AttachServer&&) noexcept;
    AttachServer& operator=(AttachServer&&) = delete;
    ~AttachServer();

    // A ring that an earlier life of this agent had accepted, kept by the service manager. Checked as an offered one; its connection is
    // nobody's (ConnectionId 0), accept() and refuse() of it tell nobody.
    std::expected<Offered, Refused> restore(Fd ring, Fd wake);

    std::vector<AttachEvent> poll(std::int64_t now_monotonic_ns);
    void accept(ConnectionId connection, std::uint64_t cookie);
    void refuse(ConnectionId connection, std::uint64_t cookie, Refusal code, std::string_view text);
    // From now on every offer is refused with `draining`; clients offer again later.
    void set_draining() { draining_ = true; }

    int wait_fd() const { return epoll_.get(); }
    const std::shared_ptr<Budget>& budget() const { return budget_; }
    std::size_t connections() const { return connections_.size(); }
    std::uint64_t refused_total() const { return refused_total_; }

private:
    struct Connection {
        Fd socket;
        std::uint32_t uid = 0;
        std::int32_t pid = 0;
        std::int64_t since_ns = 0;
        std::uint32_t offers = 0;
        bool hello = false;
        bool bye = false;
    };
    struct Packet {
        AttachMessage message{};
        Fd fds[2];
        int fd_count = 0;
    };
    enum class Received { packet, nothing, broken };
    using Connections = std::map<std::uint64_t, Connection>;

    AttachServer(Fd listener, Fd epoll, std::string path, const Options& options);
    static Result<AttachServer> start(Fd listener, std::string path, const Options& options);
    void take_connections(std::int64_t now_ns);
    bool take_connection(Fd socket, std::int64_t now_ns);
    void shed_connection();
    void serve(std::uint64_t id, std::vector<AttachEvent>& events);
    static Received receive(const Connection& connection, Packet& packet);
    bool handle(std::uint64_t id, Connection& connection, Packet& packet, std::vector<AttachEvent>& events);
    void offer(std::uint64_t id, const Connection& connection, Packet& packet, std::vector<AttachEvent>& events);
    std::expected<Offered, Refused> check_offer(std::uint64_t id, const Connection& connection, Packet& packet);
    std::expected<Offered, Refused> check_ring(Fd ring, Fd wake, std::uint32_t checked_uid, std::uint32_t charged_uid);
    void answer(std::uint64_t id, AttachKind kind, std::uint64_t cookie, Refusal code, std::string_view text);
    void end(std::uint64_t id, std::vector<AttachEvent>& events);
    void end_late_hellos(std::int64_t now_ns, std::vector<AttachEvent>& events);

    Fd listener_;
    Fd epoll_;
    Fd spare_;  // closed to make room for one accept() when descriptors ran out
    std::string path_;  // empty: not ours to remove
    std::shared_ptr<Budget> budget_;
    Connections connections_;
    std::map<std::uint32_t, std::size_t> by_user_;
    std::vector<std::uint64_t> broken_;  // found while answering, ended at the next poll
    std::uint64_t next_id_ = 1;
    std::uint64_t refused_total_ = 0;
    bool draining_ = false;
};

}  // namespace tally::ring
