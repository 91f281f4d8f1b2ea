// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The far end's port: WebSocket sessions of agents, and HTTP for health, metrics and queries.
// Flow    agent -> session -> peek -> arrivals queue -> lander; answers queue -> sessions.
// Format  transport/PROTOCOL.md
// Threads run() is the net role's thread. stop, wake, stats: any thread.
// Errors  open(): invalid (addresses, plaintext rules), denied (token files), io (listen). A bad peer costs its own
//         connection only, and is counted.

#include <functional>
#include <memory>
#include <string>

#include "transport/receiver/lander.hpp"
#include "transport/receiver/options.hpp"

namespace tally::receiver {

struct QueryRequest {
    std::string sql;
    std::string format;
    std::vector<std::pair<std::string, std::string>> params;
};
using QueryDone = std::function<void(Result<std::string>, std::string error_text)>;
// Called on the net thread; must return at once and call `done` later from any thread.
using QueryHook = std::function<void(QueryRequest, QueryDone)>;

struct ReceiverStats {
    std::uint64_t sessions = 0;
    std::uint64_t parcels = 0;
    std::uint64_t bytes = 0;
    std::uint64_t refused_connections = 0;  // token, subprotocol, limits, garbage
    std::uint64_t refused_parcels = 0;
};

struct Hooks {
    QueryHook query;                        // empty: no store here
    std::function<void()> wake_lander;      // after a push to arrivals
    std::function<void()> flush_asked;      // an agent asks for an early batch cut
    std::function<std::string()> metrics;   // more lines for /metrics
};

class Receiver {
public:
    // `landing_dir` is where read.token is kept when no read_token_file is configured.
    static Result<std::unique_ptr<Receiver>> open(const Options& options, const std::string& landing_dir, const Uuid& id,
                                                  LanderQueues& queues, Hooks hooks);
    virtual ~Receiver() = default;

    virtual void run() = 0;
    virtual void stop() = 0;
    // Reads tokens and certificates anew and puts them in force; sessions that logged in with another token are sent away to log in again.
    // On an error nothing changes. Any thread.
    virtual Status reload(const Options& options) = 0;
    virtual std::int64_t beat_ns() const = 0;  // when the net thread went round last (monotonic)
    virtual void wake() = 0;  // answers were pushed
    virtual std::uint16_t port() const = 0;
    virtual ReceiverStats stats() const = 0;
};

}  // namespace tally::receiver
