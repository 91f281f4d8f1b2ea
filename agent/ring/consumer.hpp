// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Reads the records of one ring without trusting a byte of it.
// Flow    ring -> Consumer -> intake; positions come back as set_tail / set_received / set_stored.
// Format  agent/ring/LAYOUT.md.
// Threads One consumer thread per ring (role: ring). Movable between polls.
// Owns    Borrows the Mapping. A RecordView's body lives in the caller's scratch until the next call with it.
// Invariants
//   I1  Every shared word is read once into a private copy, bounded by the private position and the capacity.
//   I2  A body is copied once; what check_body accepted is that copy, and nothing is read from the ring again.
//   I3  After the first fault nothing more is read (fault() says why); set_* still work for what was read before.
//   I4  stored <= received <= tail <= position; none ever goes back.
// Errors  next(): corrupt, truncated, unsupported; sticky.
// Limits  scratch grows to a quarter of the data area.

#include <optional>
#include <utility>

#include "agent/ring/mapping.hpp"
#include "agent/ring/registry.hpp"

namespace tally::ring {

struct RecordView {
    RecordHeader header;   // checked copy
    ByteView body;         // in the caller's scratch, 16-byte aligned; empty when the record was skipped
    std::uint64_t points;  // of this record
    std::uint64_t end;     // position after it: what set_tail takes once it is durable
};

struct DropEntry {
    std::uint32_t block = 0;  // UINT32_MAX: several blocks
    std::uint32_t reason = 0;  // DropReason; others are a hostile producer's
    std::int64_t step_first = 0;
    std::int64_t step_last = 0;
    std::uint64_t points = 0;
};

class Consumer {
public:
    // Continues after a cursor: bytes, number of the last record and points total up to there. (0, 0, 0) = a new ring.
    static Result<Consumer> open(const Mapping& mapping, std::uint64_t position, std::uint64_t record_number,
                                 std::uint64_t points);
    // Without a cursor: from the ring's own tail; number and points are taken from the first record found.
    static Result<Consumer> open_at_tail(const Mapping& mapping);

    // nullopt when the ring is empty right now. Grows `scratch` when needed, never shrinks it.
    Result<std::optional<RecordView>> next(Bytes& scratch);

    std::uint64_t position() const { return position_; }
    std::uint64_t record_number() const { return number_; }
    std::uint64_t points() const { return points_; }  // points_total of the last record
    std::uint64_t skipped() const { return skipped_; }  // optional records of unknown kinds
    const Registry& registry() const { return registry_; }
    const std::optional<Error>& fault() const { return fault_; }
    // Declares the ring corrupt from here on: intake found what check_body cannot know.
    void set_fault(Error error);
    // After a fault: published points that were not read; nullopt when the producer's number makes no sense.
    std::optional<std::uint64_t> lost_points() const;

    std::uint64_t published_points() const;  // the producer's word for it
    // A cursor behind the tail (a spool brought back from a copy) is followed as long as nothing there was overwritten; then reading jumps
    // to the tail. Points total before the jump; once.
    std::optional<std::uint64_t> take_jump() { return std::exchange(jumped_from_, std::nullopt); }

    // Published bytes not read yet (a hint; 0 after a fault).
    std::uint64_t pending() const;
    // The producer said that nothing follows head.
    bool closed() const;
    // Everything published was read and the producer closed.
    bool drained() const { return closed() && pending() == 0; }
    // True once per change since the last call.
    bool take_flush_asked();
    bool take_store_asked();
    std::uint64_t dropped_points() const;
    std::vector<DropEntry> drops() const;

    // Moves the words the producer and `flush` look at; wake_waiters() after any of them.
    void set_tail(std::uint64_t position);
    void set_received(std::uint64_t position);
    void set_stored(std::uint64_t position);
    void wake_waiters();
    void set_attached(bool attached);
    // After true, look at pending() once more before waiting for the eventfd.
    void announce_sleep(bool asleep);

private:
    Consumer(const Mapping& mapping, std::uint64_t position, std::uint64_t number, std::uint64_t points, bool adopt);

    std::unexpected<Error> fault(Error error);
    Status look();  // loads head and registry_used once
    Status refresh_registry();
    Status check_header(const RecordHeader& header) const;
    bool overwritten() const;
    void jump();
    Result<std::optional<RecordView>> next_after_jump(Bytes& scratch);
    Status check_points(const RecordHeader& header, std::uint64_t points);
    void move_word(std::atomic<std::uint64_t>& word, std::uint64_t& mine, std::uint64_t limit, std::uint64_t position);
    ProducerPart& producer() const { return control_->producer; }

    Control* control_;
    const std::uint8_t* data_;
    const std::uint8_t* registry_bytes_at_;
    std::uint64_t data_bytes_;
    std::uint32_t registry_bytes_;

    std::uint64_t position_;
    std::uint64_t number_;
    std::uint64_t points_;
    bool adopt_;  // the next record defines number_ and points_
    std::uint64_t head_seen_;
    std::uint64_t tail_;
    std::uint64_t owned_from_;  // the tail at open: from here on the producer overwrites nothing
    std::optional<std::uint64_t> jumped_from_;
    std::uint64_t received_;
    std::uint64_t stored_;
    std::uint32_t attempt_ = 0;
    std::uint32_t registry_used_ = 0;
    std::uint32_t flush_seen_ = 0;
    std::uint32_t store_seen_ = 0;
    std::uint64_t skipped_ = 0;
    Registry registry_;
    std::optional<Error> fault_;
};

}  // namespace tally::ring
