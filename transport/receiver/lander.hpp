// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Makes verified parcels durable in the landing, once, and feeds the sink from it.
// Flow    net -> arrivals -> dedup -> landing spool -> answers -> net; landing -> landed -> sink -> stored -> answers.
//         Every parcel is one record of the landing's live lane, whatever lane it came on: its own header says which.
// Threads role: disk. The four queues are its only contact with other threads.
// Owns    The landing spool.
// Invariants
//   I1  `received` is answered only after the landing's commit group with the parcel and its dedup cursor is durable.
//   I2  A record leaves the landing only when the sink said stored (never without a sink).
// Errors  open(): those of the spool. poll(): io when the landing cannot be written any more; the receiver must stop.

#include <atomic>
#include <memory>
#include <string>

#include "agent/base/spsc.hpp"
#include "spool/spool.hpp"
#include "transport/receiver/dedup.hpp"
#include "transport/wire/messages.hpp"

namespace tally::receiver {

using SessionKey = std::uint64_t;

struct Arrival {
    enum class Kind : std::uint8_t { hello, parcel };
    Kind kind = Kind::parcel;
    SessionKey session = 0;
    Uuid spool;
    std::vector<std::pair<StartId, Lane>> lanes;  // hello: what it asks about
    ParcelId id;
    std::uint64_t xxh3 = 0;
    spool::Payload payload;
};

struct Answer {
    enum class Kind : std::uint8_t { known, received, refused, nack, stored };
    Kind kind = Kind::received;
    SessionKey session = 0;  // not for stored: that goes to every session of the spool
    Uuid spool;
    std::vector<wire::LaneSets> sets;  // known, stored
    ParcelId id;
    std::uint64_t bytes = 0;  // of the parcel, given back to the session's credit
    wire::Reason reason = wire::Reason::none;
    std::uint32_t retry_after_ms = 0;
    std::string why;
};

// What the sink gets and says back: positions are sequences of the landing's live lane.
struct Landed {
    StartId start{};
    Seq seq{};
    spool::Payload payload;
};
struct StoredNotice {
    StartId start{};
    IntervalSet seqs;
};

struct LanderQueues {
    SpscQueue<Arrival> arrivals{1024};
    SpscQueue<Answer> answers{4096};
    SpscQueue<Landed> landed{4096};
    SpscQueue<StoredNotice> stored{1024};
    std::function<void()> wake_net;
    std::function<void()> wake_sink;
};

struct LanderOptions {
    spool::Options landing;
    bool has_sink = true;
    std::uint64_t sink_window_bytes = 256ULL << 20;  // landed records handed to the sink and not stored yet
};

// Read by other threads; `landed` grows before the sender is answered. The sink takes records in landing order, so once `stored`
// has reached a value that `landed` had, all that was received until then is in the store.
struct LandedCounts {
    std::atomic<std::uint64_t> landed{0};  // records of this life and those found unstored at its start
    std::atomic<std::uint64_t> stored{0};
};

struct LanderStats {
    std::uint64_t parcels = 0;
    std::uint64_t duplicates = 0;
    std::uint64_t conflicts = 0;
    std::uint64_t bytes = 0;
    std::uint64_t stored_parcels = 0;
    std::uint64_t landing_bytes = 0;
};

class Lander {
public:
    static Result<std::unique_ptr<Lander>> open(const LanderOptions& options, LanderQueues& queues);
    virtual ~Lander() = default;

    // Bounded work; true when something moved.
    virtual Result<bool> poll(std::int64_t monotonic_now_ns) = 0;
    // Everything taken so far durable and answered, acks saved.
    virtual Status drain() = 0;
    virtual spool::Spool& landing() = 0;
    virtual LanderStats stats() const = 0;
    virtual const LandedCounts& counts() const = 0;  // any thread
};

}  // namespace tally::receiver
