// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Turns groups into durable records: places them in segments, keeps writes in flight, moves what a failed
//         segment held to a new one, and announces groups in order.
// Flow    append -> runs -> pieces (at most 1 MiB) -> engine -> completions -> durable, in order -> store.
// Threads role: disk.
// Owns    The write buffers and the engine. Payloads are shared until their group is durable.
// Invariants
//   W1 a group is durable only when every record of it and of all before it lies in a completed DSYNC write.
//   W2 nothing is written to a suspect segment again; what its lane has not durable goes to a new one, flag 1.
//   W3 nothing of a group is submitted before all its records have a place.
// Limits  groups_in_flight_max groups; slots x 1 MiB of buffers.

#include <deque>
#include <memory>
#include <vector>

#include "spool/aligned.hpp"
#include "spool/engine.hpp"
#include "spool/store.hpp"

namespace tally::spool {

struct InFlightRecord {
    Lane lane = Lane::live;
    std::uint64_t seq = 0;
    Payload payload;
    std::uint64_t payload_xxh3 = 0;
    Bytes head;                  // header and cursors
    Segment* segment = nullptr;  // null: has to be written again
    std::uint64_t offset = 0;
};
struct InFlightGroup;
// Records of one group that lie side by side in one segment.
struct Run {
    InFlightGroup* group = nullptr;
    Segment* segment = nullptr;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::vector<std::uint32_t> records;
    std::uint32_t pieces_open = 0;
    bool abandoned = false;  // its segment became suspect; `group` may be gone
};
struct InFlightGroup {
    std::uint64_t number = 0;
    std::vector<InFlightRecord> records;
    std::vector<CursorUpdate> cursors;
    Bytes cursor_bytes;
    std::vector<std::shared_ptr<Run>> runs;
    std::uint32_t homeless = 0;  // records without a segment
    std::uint64_t durable_claimed = 0;

    bool complete() const;
};

class Writer {
public:
    static Result<std::unique_ptr<Writer>> open(Store& store);
    // The first live segment of this life is there already.
    void adopt(Segment* live) { current_[0] = live; }

    bool has_room(std::uint64_t payload_bytes) const;
    Plan plan() const;
    Result<Append> append(const Group& group);
    Result<bool> poll(std::int64_t monotonic_now_ns);
    Status drain();
    std::size_t in_flight() const { return groups_.size(); }
    int event_fd() const { return engine_->event_fd(); }
    const char* engine_name() const { return engine_->name(); }
    const std::string& engine_reason() const { return reason_; }

private:
    struct Piece {
        std::shared_ptr<Run> run;
        std::uint64_t offset = 0;
        std::uint32_t bytes = 0;
    };
    struct Slot {
        Piece piece;
        std::uint32_t done = 0;
        std::uint32_t retries = 0;
        bool used = false;
    };
    struct Placed {
        std::uint32_t record = 0;
        Segment* segment = nullptr;
        std::uint64_t offset = 0;
    };

    explicit Writer(Store& store) : store_(store) {}

    // placement.cpp
    std::uint64_t new_bytes(const InFlightGroup& group) const;
    Result<std::vector<Placed>> place(const InFlightGroup& group, Lane lane, Need need);
    void settle_in(InFlightGroup& group, const std::vector<Placed>& placed, bool rewritten);
    void retire(Segment* segment);
    void retire_finished();

    // writer.cpp
    Status check(const Group& group) const;
    void enqueue(const std::shared_ptr<Run>& run);
    void pump();
    void fill(std::uint8_t* out, const Piece& piece) const;
    void submit(std::uint32_t slot);
    bool reap(bool wait);
    void completed(std::uint32_t slot, std::int32_t result);
    void finish_slot(std::uint32_t slot);
    void mark_suspect(Segment* segment, int err);
    bool advance();
    void commit(InFlightGroup& group);
    bool rehome();

    Store& store_;
    AlignedBuffer buffers_;
    std::unique_ptr<WriteEngine> engine_;  // destroyed before the buffers
    std::string reason_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> slots_free_;
    std::deque<Piece> queue_;
    std::deque<std::unique_ptr<InFlightGroup>> groups_;
    std::vector<WriteDone> done_;
    Segment* current_[lane_count] = {};
    std::vector<Segment*> retiring_;  // own, full or suspect, with something in flight
    std::uint64_t group_next_ = 1;
    std::uint64_t seq_next_[lane_count] = {1, 1, 1};
    std::uint32_t rehome_failures_ = 0;
    std::int64_t rehome_at_ns_ = 0;
    Error rehome_error_;
    bool homeless_ = false;
};

}  // namespace tally::spool
