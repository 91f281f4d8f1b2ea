// SPDX-License-Identifier: Apache-2.0
// The life of producers: OPENED, heartbeats, CLOSE, and what is remembered of those that are gone.
#include <algorithm>

#include "agent/intake/intake.hpp"

namespace tally::intake {

using parcel::ProducerEnd;
using parcel::ProducerWhat;

// Grows whatever the wall clock does; a heartbeat decides nothing and repeats the number before it.
std::uint64_t Intake::next_number(Producer& producer, std::int64_t now_wall_ns) {
    const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(now_wall_ns, 0));
    return producer.number = std::max(producer.number + 1, now);
}

void Intake::write_record(Producer& producer, parcel::ProducerRecord record) {
    record.number = record.what == ProducerWhat::heartbeat ? producer.number : next_number(producer, record.time_ns);
    OriginDraft& draft = drafts_.origin(producer.origin);
    draft.producer(std::move(record));
    drafts_.check_live(draft);
}

std::vector<parcel::RingTotals> Intake::totals(const Producer& producer) const {
    std::vector<parcel::RingTotals> out;
    out.reserve(producer.rings.size());
    for (const Ring* ring : producer.rings) {
        const RingCursor& c = ring->cursor;
        out.push_back({ring->uuid, c.block, c.record_number, c.points_total, c.dropped_points, c.episodes, c.events, c.stats,
                       c.episodes_hash, c.events_hash, c.stats_hash});
    }
    return out;
}

// A producer of the cursor table is closed if none of its rings is open and one of them says how it ended.
void Intake::judge_restored(Producer& producer) {
    std::erase(ended_, producer.id);
    std::erase_if(finished_, [&](const Finished& f) { return f.producer == producer.id; });
    producer.end = ProducerEnd::none;
    bool open = false;
    for (const Ring* ring : producer.rings) {
        const RingCursor& c = ring->cursor;
        open |= c.end == RingEnd::open;
        // Its close record was read; the exit code is not kept.
        producer.close_seen |= c.end == RingEnd::closed || (c.block == 0 && c.end == RingEnd::finished);
        if (c.end == RingEnd::died) producer.end = ProducerEnd::died;
        if (c.end == RingEnd::lost) producer.end = ProducerEnd::lost;
        if (c.end == RingEnd::closed) producer.end = ProducerEnd::finished;
    }
    if (open) producer.end = ProducerEnd::none;
    if (producer.end == ProducerEnd::finished)
        finished_.push_back({producer.id, 0});
    else if (producer.end != ProducerEnd::none)
        ended_.push_back(producer.id);
}

// A new producer is opened; one that was closed, in this life or an earlier one, is reopened.
void Intake::open_producer(Producer& producer, bool known, std::int64_t now_wall_ns) {
    const bool closed = producer.end != ProducerEnd::none;
    producer.end = producer.worst = ProducerEnd::none;
    std::erase(ended_, producer.id);
    std::erase_if(finished_, [&](const Finished& f) { return f.producer == producer.id; });
    if (known && !closed) return;
    parcel::ProducerRecord r = producer.description;
    r.what = closed ? ProducerWhat::reopened : ProducerWhat::opened;
    r.time_ns = now_wall_ns;
    write_record(producer, std::move(r));
}

void Intake::end(RingHandle handle, ProducerEnd end, std::int64_t now_wall_ns) {
    const auto it = rings_.find(handle);
    if (it == rings_.end()) return;
    Ring& ring = *it->second;
    Producer& producer = *ring.producer;
    ring.attached = false;
    ring.ended = true;
    if (end != ProducerEnd::finished) producer.worst = std::max(producer.worst, end);
    if (end == ProducerEnd::finished && ring.cursor.end == RingEnd::open) {
        ring.cursor.end = RingEnd::finished;
        touch(ring);
    }
    maybe_close(producer, now_wall_ns);
}

// A block may end long before its producer does: only CLOSE, death or loss says that nothing follows.
void Intake::maybe_close(Producer& producer, std::int64_t now_wall_ns) {
    const auto attached = [](const Ring* r) { return r->attached; };
    const auto awaited = [](const Ring* r) { return !r->attached && !r->ended && r->cursor.end == RingEnd::open; };
    const auto used = std::count_if(producer.rings.begin(), producer.rings.end(), [](const Ring* r) { return r->cursor.record_number != 0; });
    if (producer.end != ProducerEnd::none || std::any_of(producer.rings.begin(), producer.rings.end(), attached)) return;
    if (producer.worst != ProducerEnd::none)
        close_producer(producer, producer.worst, now_wall_ns);
    else if (producer.close_seen && used >= std::int64_t{producer.rings_used} && std::none_of(producer.rings.begin(), producer.rings.end(), awaited))
        close_producer(producer, ProducerEnd::finished, now_wall_ns);
}

void Intake::close_producer(Producer& producer, ProducerEnd end, std::int64_t now_wall_ns) {
    parcel::ProducerRecord r = producer.description;
    r.what = ProducerWhat::closed;
    r.end = end;
    r.time_ns = now_wall_ns;
    r.exit_code = producer.close_seen ? producer.exit_code : 0;
    r.totals = totals(producer);
    write_record(producer, std::move(r));
    producer.end = end;
    RingEnd mark = RingEnd::closed;
    if (end == ProducerEnd::died) mark = RingEnd::died;
    if (end == ProducerEnd::lost) mark = RingEnd::lost;
    for (Ring* ring : producer.rings) {
        const bool done = end != ProducerEnd::finished && ring->cursor.end == RingEnd::finished;
        if (ring->cursor.end != RingEnd::corrupt && !done) ring->cursor.end = mark;
        touch(*ring);
    }
    if (end == ProducerEnd::finished)
        finished_.push_back({producer.id, 0});
    else
        ended_.push_back(producer.id);
}

// At a cut. A ring may be offered again although all of it is committed, when the agent died before it could move the
// ring's tail: its cursor is what keeps it from being read twice, so it outlives the CLOSE. Cursors of producers that died
// or were lost are kept as long as there are not too many.
void Intake::forget_ended() {
    std::erase_if(finished_, [&](const Finished& f) {
        const bool due = f.since_ns != 0 && now_ns_ - f.since_ns >= forget_after_ns;
        if (due) forget(*producers_.at(f.producer));
        return due;
    });
    while (ended_.size() > ended_producers_max) {
        forget(*producers_.at(ended_.front()));
        ended_.pop_front();
    }
}

void Intake::forget(Producer& producer) {
    const Uuid id = producer.id;
    for (Ring* ring : producer.rings) {
        TALLY_ASSERT(!ring->dirty && ring->frames.empty());
        removals_.push_back(ring->uuid);
        by_uuid_.erase(ring->uuid);
        rings_.erase(ring->handle);
    }
    producers_.erase(id);
}

// Its close record was read and it is gone, but rings that the record counts never came: they held nothing that can still arrive.
void Intake::close_overdue(Producer& producer, std::int64_t now_monotonic_ns, std::int64_t now_wall_ns) {
    if (producer.end != ProducerEnd::none || !producer.close_seen) return;
    if (producer.detached_ns == 0) producer.detached_ns = now_monotonic_ns;
    if (now_monotonic_ns - producer.detached_ns >= forget_after_ns) close_producer(producer, ProducerEnd::finished, now_wall_ns);
}

void Intake::close_absent(std::int64_t now_wall_ns) {
    std::vector<Producer*> absent;
    for (auto& [id, producer] : producers_) {
        const bool attached =
            std::any_of(producer->rings.begin(), producer->rings.end(), [](const Ring* r) { return r->attached; });
        if (producer->restored && !attached && producer->end == ProducerEnd::none) absent.push_back(producer.get());
    }
    for (Producer* p : absent) close_producer(*p, p->close_seen ? ProducerEnd::finished : ProducerEnd::lost, now_wall_ns);
}

void Intake::heartbeat(std::int64_t now_monotonic_ns, std::int64_t now_wall_ns) {
    now_ns_ = now_monotonic_ns;
    for (Finished& f : finished_)
        if (f.since_ns == 0) f.since_ns = now_monotonic_ns;
    for (auto& [id, producer] : producers_) {
        const bool attached =
            std::any_of(producer->rings.begin(), producer->rings.end(), [](const Ring* r) { return r->attached; });
        if (!attached) {
            close_overdue(*producer, now_monotonic_ns, now_wall_ns);
            continue;
        }
        producer->detached_ns = 0;
        if (producer->heartbeat_ns == 0) producer->heartbeat_ns = now_monotonic_ns;
        if (now_monotonic_ns - producer->heartbeat_ns < options_.heartbeat_interval_ns) continue;
        producer->heartbeat_ns = now_monotonic_ns;
        parcel::ProducerRecord r = producer->description;
        r.what = ProducerWhat::heartbeat;
        r.time_ns = now_wall_ns;
        r.totals = totals(*producer);
        write_record(*producer, std::move(r));
    }
}

}  // namespace tally::intake
