// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The producer's side of one ring: claim space, write, commit; append descriptions; count drops.
// Flow    client -> ring. Waiting for space and waking the agent is the caller's business (agent/client).
// Format  agent/ring/LAYOUT.md.
// Threads One producer thread per ring.
// Owns    Borrows the pages; they outlive the producer.
// Invariants
//   I1  Only the release store of `head` makes a record exist; dying before it leaves nothing.
//   I2  Space below the tail last seen, and nothing else, is overwritten. A tail that makes no sense is ignored.
//   I3  At most one claim is open; claim while one is open is refused.
// Errors  claim returns nullptr when the ring is full right now: an outcome, not an error.
// Limits  A record is at most a quarter of the data area.
//
// libc only, no libstdc++: the client library includes this.

#include <cstring>

#include "agent/ring/pages.hpp"

namespace tally::ring {

struct RecordMeta {
    RecordKind kind = RecordKind::scalars;
    std::uint16_t flags = 0;  // flag_optional; flag_has_rl_step is set by has_rl_step
    bool has_rl_step = false;
    std::uint32_t attempt = 0;
    std::int64_t time_ns = 0;
    std::int64_t rl_step = 0;
    std::uint64_t points = 0;
};

constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) & ~std::uint64_t{7}; }

class Producer {
public:
    Producer() = default;
    explicit Producer(const Pages& pages) : pages_(pages) {}

    std::uint32_t body_bytes_max() const {
        return static_cast<std::uint32_t>(pages_.data_bytes / 4 - sizeof(RecordHeader));
    }
    bool claimed() const { return claimed_bytes_ != 0; }

    // Space for a body, 8-byte aligned; nullptr when full, when a claim is open, or when body_bytes is too big.
    std::uint8_t* claim(std::uint64_t body_bytes) {
        if (claimed_bytes_ != 0 || body_bytes > body_bytes_max()) return nullptr;
        const std::uint64_t bytes = sizeof(RecordHeader) + padded(body_bytes);
        if (pages_.data_bytes - (head_ - tail_seen_) < bytes) {
            see_tail();
            if (pages_.data_bytes - (head_ - tail_seen_) < bytes) return nullptr;
        }
        claimed_bytes_ = static_cast<std::uint32_t>(bytes);
        std::uint8_t* body = at_head() + sizeof(RecordHeader);
        if (bytes != sizeof(RecordHeader)) std::memset(body + padded(body_bytes) - 8, 0, 8);  // I: padding is zero
        return body;
    }
    void abort() { claimed_bytes_ = 0; }

    // Publishes the claimed record.
    void commit(const RecordMeta& meta) {
        RecordHeader header{};
        header.bytes = claimed_bytes_;
        header.kind = meta.kind;
        header.flags = static_cast<std::uint16_t>(meta.flags | (meta.has_rl_step ? flag_has_rl_step : 0));
        header.number = records_ + 1;
        header.points_total = points_ + meta.points;
        header.time_ns = meta.time_ns;
        header.rl_step = meta.has_rl_step ? meta.rl_step : 0;
        header.attempt = meta.attempt;
        std::memcpy(at_head(), &header, sizeof(header));
        records_ = header.number;
        points_ = header.points_total;
        head_ += claimed_bytes_;
        claimed_bytes_ = 0;
        drops_open_ = false;
        ProducerPart& shared = pages_.control->producer;
        shared.records.store(records_, std::memory_order_relaxed);
        shared.points.store(points_, std::memory_order_relaxed);
        // seq_cst: must not pass the load of `asleep` that follows (pairs with Consumer::announce_sleep).
        shared.head.store(head_, std::memory_order_seq_cst);
    }

    // Whether the agent has to be woken after a commit: it sleeps, or the ring just passed half full.
    bool agent_asleep() const { return pages_.control->consumer.asleep.load(std::memory_order_seq_cst) != 0; }
    bool passed_half() {
        if (head_ - tail_seen_ < pages_.data_bytes / 2) return over_half_ = false;
        see_tail();
        const bool was = over_half_;
        over_half_ = head_ - tail_seen_ >= pages_.data_bytes / 2;
        return over_half_ && !was;
    }

    // Appends one registry entry of up to three pieces. False when the registry is full.
    struct Piece {
        const void* bytes;
        std::size_t size;
    };
    bool append_registry(RegistryKind kind, const Piece* pieces, std::size_t count) {
        std::uint64_t body = 0;
        for (std::size_t i = 0; i < count; ++i) body += pieces[i].size;
        const std::uint64_t bytes = sizeof(RegistryHeader) + padded(body);
        if (bytes > pages_.registry_bytes - registry_used_) return false;
        std::uint8_t* to = pages_.registry + registry_used_;
        const RegistryHeader header{static_cast<std::uint32_t>(bytes), kind, 0};
        std::memcpy(to, &header, sizeof(header));
        std::size_t at = sizeof(header);
        for (std::size_t i = 0; i < count; ++i) {
            if (pieces[i].size != 0) std::memcpy(to + at, pieces[i].bytes, pieces[i].size);
            at += pieces[i].size;
        }
        std::memset(to + at, 0, bytes - at);
        registry_used_ += static_cast<std::uint32_t>(bytes);
        pages_.control->producer.registry_used.store(registry_used_, std::memory_order_release);
        return true;
    }
    std::uint32_t registry_left() const { return pages_.registry_bytes - registry_used_; }

    // Counts what could not be written. Drops with no record between them share a slot.
    void count_drop(std::uint32_t block, DropReason reason, std::int64_t first, std::int64_t last, std::uint64_t points) {
        Control& control = *pages_.control;
        std::atomic<std::uint64_t>& total = control.producer.dropped_points;
        total.store(total.load(std::memory_order_relaxed) + points, std::memory_order_relaxed);
        std::uint32_t used = control.drops_used.load(std::memory_order_relaxed);
        if (used > drop_slots) used = drop_slots;
        DropSlot* slot = used == 0 ? nullptr : &control.drops[used - 1];
        const bool same = slot != nullptr && drops_open_ && slot->block == block &&
                          slot->reason == static_cast<std::uint32_t>(reason);
        if (!same && used < drop_slots) {
            new_slot(control.drops[used], block, reason, first, last, points);
            control.drops_used.store(used + 1, std::memory_order_release);
        } else {
            widen(*slot, same ? block : UINT32_MAX, first, last, points);
        }
        drops_open_ = true;
    }

    void close() { pages_.control->producer.closed.store(1, std::memory_order_release); }

    std::uint64_t head() const { return head_; }
    std::uint64_t records() const { return records_; }
    std::uint64_t points() const { return points_; }
    const Pages& pages() const { return pages_; }

private:
    std::uint8_t* at_head() const { return pages_.data + (head_ & (pages_.data_bytes - 1)); }

    void see_tail() {
        const std::uint64_t tail = pages_.control->consumer.tail.load(std::memory_order_acquire);
        if (tail <= head_ && tail >= tail_seen_) tail_seen_ = tail;  // I2
    }
    static void new_slot(DropSlot& slot, std::uint32_t block, DropReason reason, std::int64_t first, std::int64_t last,
                         std::uint64_t points) {
        slot.block = block;
        slot.reason = static_cast<std::uint32_t>(reason);
        slot.step_first = first;
        slot.step_last = last;
        slot.points.store(points, std::memory_order_release);
    }
    // The steps first, so that a reader who sees the points sees a hull that holds them.
    static void widen(DropSlot& slot, std::uint32_t block, std::int64_t first, std::int64_t last, std::uint64_t points) {
        std::atomic_ref<std::uint32_t>(slot.block).store(block, std::memory_order_relaxed);
        std::atomic_ref<std::int64_t> slot_first(slot.step_first);
        std::atomic_ref<std::int64_t> slot_last(slot.step_last);
        if (first < slot_first.load(std::memory_order_relaxed)) slot_first.store(first, std::memory_order_relaxed);
        if (last > slot_last.load(std::memory_order_relaxed)) slot_last.store(last, std::memory_order_relaxed);
        slot.points.store(slot.points.load(std::memory_order_relaxed) + points, std::memory_order_release);
    }

    Pages pages_;
    std::uint64_t head_ = 0;
    std::uint64_t tail_seen_ = 0;
    std::uint64_t records_ = 0;
    std::uint64_t points_ = 0;
    std::uint32_t claimed_bytes_ = 0;
    std::uint32_t registry_used_ = 0;
    bool over_half_ = false;
    bool drops_open_ = false;  // the newest drop slot still grows
};

}  // namespace tally::ring
