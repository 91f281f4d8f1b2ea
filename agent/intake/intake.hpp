// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Turns the records of rings into batches: parcels, cursor updates and the positions they make durable.
// Flow    ring::Consumer -> app -> record() ... cut() -> Batch -> app: stamp, spool append, set_tail when durable.
// Threads role: ring. Every method.
// Owns    Copies of what it is told about producers; no ring, no descriptor, no clock.
// Invariants
//   I1  A record is taken whole or not at all: after an error of record() nothing of it is in the batch.
//   I2  A batch holds everything of the records taken since the last one, and the cursors say exactly that; a restart from
//       any committed batch continues without loss and without repetition.
//   I3  Ledger, statistics and headers are complete per record and additive.
//   I4  The first parcel of a batch is in the live lane.
// Errors  record(): corrupt / unsupported: the caller reads this ring no further and calls corrupt().
//         attach(): busy (this ring is attached), conflict (a ring or producer of another identity), corrupt (its loss was
//         declared in an earlier life), invalid (nonsense in the description).
// Limits  ended_producers_max cursors of producers that died or were lost are kept, for rings that come back.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "agent/intake/batch.hpp"
#include "agent/intake/cursor.hpp"
#include "agent/intake/frame_encoder.hpp"
#include "agent/ring/layout.hpp"

namespace tally::intake {

// The seam: what the app knows about a ring when it attaches it (from the ring's identity and registry).
struct RingInfo {
    Uuid ring;
    ring::RingKind kind = ring::RingKind::scalar;
    std::uint32_t pid = 0;
    std::int64_t opened_ns = 0;
    std::uint64_t tail = 0;  // the ring's own; matters only where no cursor knows the ring
    // of the registry's producer entry
    Uuid producer;
    std::string run;
    std::string project;
    std::string name;
    std::string role;
    std::string host;
    std::string labels;
    std::string continues;
    std::int64_t run_created_ns = 0;  // 0: opened_ns counts
    std::int64_t fork_step = INT64_MAX;
    std::uint32_t attempt = 0;
    std::uint32_t producers_declared = 0;
    // of a block ring
    Block block;
    // of a scalar ring, so far; add_series() for later ones
    std::vector<parcel::Metric> series;
};

struct Attached {
    RingHandle handle{};
    std::optional<RingCursor> resume;  // position, record number and points to continue after; none: a new ring
};

// One drop slot of a ring (ring::DropEntry).
struct Drop {
    std::uint32_t block = 0;
    std::uint32_t reason = 0;
    std::int64_t step_first = 0;
    std::int64_t step_last = 0;
    std::uint64_t points = 0;
};

struct Counters {
    std::uint64_t records = 0;
    std::uint64_t points = 0;
    std::uint64_t corrupt = 0;
    std::uint64_t batches = 0;
    std::uint64_t parcels = 0;
    std::uint64_t parcel_bytes = 0;
    std::uint64_t stats_left_out = 0;  // records whose statistics would outweigh them
};

class Intake {
public:
    static constexpr std::size_t ended_producers_max = 1024;
    static constexpr std::int64_t forget_after_ns = 30'000'000'000;

    explicit Intake(const Options& options);
    Intake(const Intake&) = delete;
    Intake& operator=(const Intake&) = delete;

    // Before anything else: the spool's committed cursor table, entry by entry. Entries of other kinds are refused.
    Status restore(ByteView key, ByteView value);
    // The first batch of this start begins with it.
    void start(const parcel::StartSection& section) { drafts_.start(section); }

    // `now_wall_ns` of every call below is the time that producer records and gaps show.
    Result<Attached> attach(const RingInfo& info, std::int64_t now_wall_ns);
    std::size_t series_count(RingHandle ring) const { return ring_of(ring).series.size(); }
    void add_series(RingHandle ring, const parcel::Metric& series) { ring_of(ring).series.push_back(series); }

    // `header` was checked by the consumer; the body is hostile. `position_after`: what set_tail takes later.
    Status record(RingHandle ring, const ring::RecordHeader& header, ByteView body, std::uint64_t position_after);
    // The ring's drop slots in their order; what was not declared yet becomes gaps.
    void drops(RingHandle ring, std::span<const Drop> slots, std::int64_t now_wall_ns);
    void gap(RingHandle ring, parcel::Gap gap);
    // A loss that belongs to no attached ring (damage of the spool, a parked parcel). Batch::losses counts them.
    void loss(parcel::Gap gap);
    // The ring is damaged and read no further; `points_lost` 0: unknown. Its producer goes on with its other rings; say
    // end(died) as for any other ring when its connection ends.
    void corrupt(RingHandle ring, std::uint64_t points_lost, std::int64_t now_wall_ns);
    // No record of this ring follows: finished = closed and drained, died = its connection ended and it is drained.
    // When the last attached ring of a producer ends, the producer's CLOSE is written (finished only after its close
    // record, and when no ring of the cursor table is missing). A handle that is gone is ignored.
    void end(RingHandle ring, parcel::ProducerEnd end, std::int64_t now_wall_ns);
    // Producers of the restored table of which no ring is attached are closed as lost. Once, 30 s after the start.
    void close_absent(std::int64_t now_wall_ns);
    // Writes heartbeats that are due, and lets finished producers be forgotten. At least every few seconds.
    void heartbeat(std::int64_t now_monotonic_ns, std::int64_t now_wall_ns);

    // Something waits to be cut, and it is old or large enough.
    bool batch_ready(std::int64_t now_monotonic_ns);
    // Removals of cursors wait for company: they alone are no reason for a batch.
    bool pending() const { return !drafts_.empty() || !dirty_.empty(); }
    std::size_t pending_bytes() const { return drafts_.bytes(); }
    // Whatever waits, ready or not; nullopt when nothing does.
    std::optional<Batch> cut(std::int64_t now_wall_ns);

    const Counters& counters() const { return counters_; }
    std::size_t rings() const { return rings_.size(); }

private:
    struct Producer;
    struct Ring {
        RingHandle handle{};
        Uuid uuid;
        RingCursor cursor;
        bool attached = false;  // in this life, and not ended
        bool ended = false;     // in this life
        bool dirty = false;
        Producer* producer = nullptr;
        Block block;
        std::vector<parcel::Metric> series;
        std::vector<std::uint64_t> seeds;  // of seeds_attempt, per metric of the block
        std::uint32_t seeds_attempt = 0;
        FrameDraft frames;
    };
    struct Producer {
        Uuid id;
        parcel::Origin origin;  // attempt: the newest
        parcel::ProducerRecord description;
        std::vector<Ring*> rings;
        bool restored = false;
        bool close_seen = false;
        std::int32_t exit_code = 0;
        std::uint32_t rings_used = 0;  // by its close record; 0: not said
        std::uint64_t number = 0;      // of its newest record
        parcel::ProducerEnd end = parcel::ProducerEnd::none;
        parcel::ProducerEnd worst = parcel::ProducerEnd::none;  // of the rings that ended
        std::int64_t heartbeat_ns = 0;                          // monotonic; 0: not yet
        std::int64_t detached_ns = 0;                           // monotonic, since no ring is attached; 0: not known
    };

    Ring& ring_of(RingHandle handle) const;
    Ring& add_ring(const Uuid& uuid, Producer& producer);
    Producer& add_producer(const parcel::Origin& origin);
    Status check_info(const RingInfo& info) const;
    void describe(Ring& ring, const RingInfo& info);
    void touch(Ring& ring);

    Status frame(Ring& ring, const ring::RecordHeader& header, ByteView body);
    Status scalars(Ring& ring, const ring::RecordHeader& header, ByteView body);
    Status episodes(Ring& ring, const ring::RecordHeader& header, ByteView body);
    Status event(Ring& ring, const ring::RecordHeader& header, ByteView body);
    Status rewind(Ring& ring, const ring::RecordHeader& header, ByteView body);
    Status close(Ring& ring, ByteView body);
    Status dispatch(Ring& ring, const ring::RecordHeader& header, ByteView body);
    parcel::Origin origin_at(const Ring& ring, std::uint32_t attempt) const;

    void gap(const parcel::Origin& origin, parcel::Gap gap);

    // producers.cpp
    void open_producer(Producer& producer, bool known, std::int64_t now_wall_ns);
    void close_producer(Producer& producer, parcel::ProducerEnd end, std::int64_t now_wall_ns);
    void judge_restored(Producer& producer);
    void maybe_close(Producer& producer, std::int64_t now_wall_ns);
    void close_overdue(Producer& producer, std::int64_t now_monotonic_ns, std::int64_t now_wall_ns);
    void write_record(Producer& producer, parcel::ProducerRecord record);
    std::uint64_t next_number(Producer& producer, std::int64_t now_wall_ns);
    std::vector<parcel::RingTotals> totals(const Producer& producer) const;
    void forget(Producer& producer);
    void forget_ended();

    const Options options_;
    Drafts drafts_;
    FrameEncoder encoder_;
    FrameRecord frame_record_;
    std::unordered_map<RingHandle, std::unique_ptr<Ring>> rings_;
    std::map<Uuid, Ring*> by_uuid_;
    std::map<Uuid, std::unique_ptr<Producer>> producers_;
    std::uint64_t next_handle_ = 1;
    std::vector<Ring*> dirty_;
    std::vector<Uuid> removals_;      // cursors of rings that are gone
    struct Finished {
        Uuid producer;
        std::int64_t since_ns = 0;  // monotonic; 0: not known yet
    };
    std::vector<Finished> finished_;  // forgotten some time later
    std::deque<Uuid> ended_;          // died or lost, oldest first
    std::int64_t now_ns_ = 0;  // monotonic, of the last heartbeat()
    std::int64_t pending_since_ns_ = 0;
    std::uint64_t losses_ = 0;
    Counters counters_;
};

}  // namespace tally::intake
