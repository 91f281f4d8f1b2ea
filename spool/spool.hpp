// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The append-only store on a host: commit groups over lanes, durable in order, read back until acknowledged.
// Flow    intake (agent) or landing (receiver) -> plan/append/poll -> segments -> fetch -> uplink or sink -> ack.
// Format  spool/FORMAT.md
// Threads role: disk. Every method; nothing here is called from elsewhere. open() may run on another thread: the first
//         append() binds the spool to its own.
// Owns    The directory (OFD lock) and all its files; payloads handed in are shared, never copied twice.
// Invariants
//   I1 durable_group() only grows, and every record of groups <= it survives power loss.
//   I2 fetch() yields committed records only, each identity at most once per life, in chain order, never acked ones.
//   I3 a segment is deleted only after a synced ack file covers it.
//   I4 nothing is deleted on doubt: it moves to quarantine and is counted.
// Errors  open: busy (another process has it), io, full, denied. Afterwards write errors are healed by a new segment and
//         show in stats(); append() returns fatal `io` only when no segment can be opened at all, `invalid` and
//         `too_big` for a group that breaks the rules of Group.
// Limits  stats() estimates bytes of segments that are partly acknowledged.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/interval_set.hpp"
#include "agent/base/types.hpp"
#include "spool/format.hpp"
#include "spool/options.hpp"

namespace tally::spool {

using Payload = std::shared_ptr<const Bytes>;
using CursorTable = std::map<Bytes, Bytes>;  // opaque key -> opaque value

struct NewRecord {
    Lane lane = Lane::bulk;
    Seq seq{};  // as planned
    Payload payload;
};
struct CursorUpdate {
    Bytes key;
    Bytes value;  // empty: remove
};
struct Group {
    GroupNo number{};
    std::vector<NewRecord> records;  // at least one, the first in the live lane; sequences contiguous per lane
    std::vector<CursorUpdate> cursors;
    bool reserve = false;  // declares losses: may use the 4 MiB kept back when the budget is used up
};
// What the next group and the next parcels of each lane are called. Valid until the next append().
struct Plan {
    GroupNo group{};
    Seq next[lane_count]{};
};
struct Fetched {
    ParcelId id;
    GroupNo group{};
    Payload payload;
};
// A committed range that cannot be read, or was parked: a loss to declare. seq_first = 0: unknowable.
struct Damage {
    bool parked = false;
    StartId start{};
    Lane lane = Lane::live;
    std::uint64_t seq_first = 0;
    std::uint64_t seq_last = 0;
    std::uint64_t bytes = 0;
    std::string file;
    std::string what;
};
struct LaneStats {
    std::uint64_t parcels = 0;  // committed, not acked
    std::uint64_t bytes = 0;
    std::uint64_t durable_seq = 0;
    std::uint64_t acked_seq = 0;  // contiguous, of this start
    std::int64_t oldest_unacked_ns = 0;  // wall clock of the oldest segment with unacked records; 0: none
};
struct Stats {
    std::uint64_t bytes_on_disk = 0;
    std::uint64_t budget_bytes = 0;
    std::uint64_t parked = 0;
    std::uint64_t quarantined = 0;  // files set aside and copies of damaged ranges
    std::uint64_t torn_tails = 0;   // unfinished segments found by this opening: the ordinary trace of a crash
    std::uint64_t write_errors = 0;
    std::string engine;         // "io_uring" or "pwritev2"
    std::string engine_reason;  // why not io_uring; empty otherwise
    LaneStats lanes[lane_count];
};

// full: nothing was taken. Either groups_in_flight() has reached its maximum (poll, try again) or space is used up (try
// again after acks).
enum class Append : std::uint8_t { ok, full };

class Spool {
public:
    static Result<std::unique_ptr<Spool>> open(const Options& options);
    virtual ~Spool() = default;  // drain first: destroying with groups in flight drops what was not durable

    virtual const Uuid& uuid() const = 0;
    virtual StartId start() const = 0;
    virtual const std::vector<EndedStart>& ended_starts() const = 0;  // newest last; chained by the START section
    virtual const CursorTable& cursors() const = 0;                     // committed view; grows with durable groups
    // Found by this opening; grows when fetch() or sweep() meet more. Each entry once per life.
    virtual const std::vector<Damage>& damage() const = 0;

    // May a group of about this size be appended now? Cheap; ask before encoding.
    virtual bool has_room(std::uint64_t payload_bytes) const = 0;
    virtual Plan plan() const = 0;
    virtual Result<Append> append(const Group& group) = 0;
    // Reaps completions; call at least every few ms while groups are in flight. Returns true when something moved.
    virtual Result<bool> poll(std::int64_t monotonic_now_ns) = 0;
    virtual GroupNo durable_group() const = 0;
    virtual std::size_t groups_in_flight() const = 0;
    virtual int completion_fd() const = 0;  // eventfd readable when poll() has work, -1 without io_uring
    // Blocks until everything appended is durable (shutdown).
    virtual Status drain() = 0;

    // Next committed, unacked, not yet fetched records of a lane, up to bytes_max (at least one if there is one).
    // Recent ones come from memory, older ones from disk; unreadable ones become damage.
    virtual Result<std::vector<Fetched>> fetch(Lane lane, std::uint64_t bytes_max) = 0;
    // Start id and lane -> oldest sequence still kept and newest committed (what HELLO announces).
    struct Kept {
        StartId start{};
        Lane lane = Lane::live;
        std::uint64_t seq_first = 0;
        std::uint64_t seq_last = 0;
    };
    virtual std::vector<Kept> kept() const = 0;

    // `receiver`: who said so; nil when it does not matter.
    virtual void ack_received(StartId start, Lane lane, const IntervalSet& seqs, const Uuid& receiver = {}) = 0;
    virtual void ack_stored(StartId start, Lane lane, const IntervalSet& seqs) = 0;
    virtual IntervalSet received(StartId start, Lane lane) const = 0;
    virtual IntervalSet stored(StartId start, Lane lane) const = 0;
    // The gap that declares this loss is durable: its segments may go. Until then damaged ones are kept.
    virtual void declare_lost(StartId start, Lane lane, const IntervalSet& seqs) = 0;
    // Options::keep_until from now on, also in later lives: the receiver says which.
    virtual void keep_until(KeepUntil level) = 0;
    // keep_until = stored: what another receiver has received but not stored is fetched again, for this one.
    virtual void refetch(const Uuid& receiver) = 0;
    // Copies a refused record to parked/ with its reason and syncs; it is not fetched again, and damage() names it.
    virtual Status park(const ParcelId& id, const Payload& payload, std::string_view reason) = 0;
    // Saves acks when they changed and deletes covered segments; call about once a second and at shutdown.
    virtual Status sweep() = 0;

    virtual Stats stats() const = 0;
};

}  // namespace tally::spool
