// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Carries committed parcels to a receiver over one live and several bulk sessions, and brings acknowledgements back.
// Flow    spool (disk role) -> live/bulk queues -> sessions -> receiver; back queue -> disk role.
// Threads run() is the net role's thread. stop, wake, pause, flush_store, stats: any thread.
// Owns    Parcels from pop to acknowledgement, at most window_bytes of them: memory stays flat while the receiver is away.
// Invariants
//   I1  A parcel popped is acknowledged, refused, or sent again, until stop().
//   I2  Live parcels go over session 0 only, bulk over the others.
// Errors  open(): invalid (endpoint), denied (plaintext to a remote host). Everything later is a state and is retried.

#include <functional>
#include <memory>
#include <string>

#include "agent/base/spsc.hpp"
#include "spool/spool.hpp"
#include "transport/uplink/options.hpp"
#include "transport/wire/messages.hpp"

namespace tally::uplink {

struct Outbound {
    ParcelId id;
    spool::Payload payload;
};
struct Inbound {
    enum class Kind : std::uint8_t { received, stored, refused, welcomed };
    Kind kind = Kind::received;
    StartId start{};
    Lane lane = Lane::live;
    IntervalSet seqs;       // received, stored
    Uuid receiver;          // received, welcomed
    bool keep_stored = false;  // welcomed: keep what it received until it is stored
    ParcelId id;            // refused
    spool::Payload payload;  // refused; null when it is no longer held
    std::string why;        // refused
};
struct Queues {
    SpscQueue<Outbound> live{256};
    SpscQueue<Outbound> bulk{256};
    SpscQueue<Inbound> back{1024};
    std::function<void()> wake_disk;  // called from the net thread after a push to `back`
};
struct SpoolInfo {
    Uuid uuid;
    StartId start{};
    std::vector<spool::Spool::Kept> kept;
    std::string host;
    std::string version;
};

enum class State : std::uint8_t { connecting, up, paused, denied, misconfigured, backoff };
const char* state_name(State state) noexcept;

struct Stats {
    State state = State::connecting;
    std::uint32_t sessions = 0;  // open now
    std::uint64_t sent_bytes = 0;
    std::uint64_t acked_parcels = 0;
    std::uint64_t held_bytes = 0;
    double goodput_bps = 0;  // acknowledged bytes per second x 8, over about the last second
    double rtt_ms = 0;
    std::string last_error;
    std::int64_t beat_ns = 0;  // when the net thread went round last (monotonic)
};

class Uplink {
public:
    static Result<std::unique_ptr<Uplink>> open(const Options& options, SpoolInfo info, Queues& queues);
    virtual ~Uplink() = default;

    virtual void run() = 0;
    virtual void stop() = 0;
    virtual void wake() = 0;
    virtual void pause(bool paused) = 0;
    virtual void flush_store() = 0;
    virtual Stats stats() const = 0;
};

}  // namespace tally::uplink
