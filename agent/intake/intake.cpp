// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/intake.hpp"

#include <algorithm>

#include "agent/parcel/utf8.hpp"

namespace tally::intake {

namespace {

constexpr std::size_t parcels_per_batch = 1024;  // a group holds 4,096 records

const char* reason_name(std::uint32_t reason) {
    switch (static_cast<ring::DropReason>(reason)) {
        case ring::DropReason::ring_full: return "ring_full";
        case ring::DropReason::record_too_big: return "record_too_big";
        case ring::DropReason::registry_full: return "registry_full";
    }
    return "unknown";
}

bool metrics_valid(const std::vector<parcel::Metric>& metrics) {
    return std::all_of(metrics.begin(), metrics.end(), [](const parcel::Metric& m) {
        return metric_name_valid(m.name) && dtype_width(m.dtype) != 0;
    });
}

bool texts_valid(const RingInfo& info) {
    for (const std::string* text : {&info.project, &info.name, &info.role, &info.host, &info.continues})
        if (text->size() > 4096 || !parcel::utf8_valid(*text)) return false;
    return info.labels.size() <= (64U << 10) && parcel::utf8_valid(info.labels);
}

}  // namespace

Intake::Intake(const Options& options) : options_(options), drafts_(options_), encoder_(options_, drafts_) {}

// ---- rings -------------------------------------------------------------------------------------------------------

Intake::Ring& Intake::ring_of(RingHandle handle) const {
    const auto it = rings_.find(handle);
    TALLY_ASSERT(it != rings_.end());
    return *it->second;
}

Intake::Ring& Intake::add_ring(const Uuid& uuid, Producer& producer) {
    auto ring = std::make_unique<Ring>();
    ring->handle = RingHandle{next_handle_++};
    ring->uuid = uuid;
    ring->producer = &producer;
    ring->cursor.producer = producer.id;
    ring->cursor.run = producer.origin.run;
    ring->cursor.project = producer.origin.project;
    ring->cursor.run_created_ns = producer.origin.run_created_ns;
    ring->cursor.attempt = producer.origin.attempt;
    producer.rings.push_back(ring.get());
    by_uuid_[uuid] = ring.get();
    return *rings_.emplace(ring->handle, std::move(ring)).first->second;
}

Intake::Producer& Intake::add_producer(const parcel::Origin& origin) {
    auto& slot = producers_[origin.producer];
    if (!slot) {
        slot = std::make_unique<Producer>();
        slot->id = origin.producer;
        slot->origin = origin;
    }
    return *slot;
}

void Intake::touch(Ring& ring) {
    if (ring.dirty) return;
    ring.dirty = true;
    dirty_.push_back(&ring);
}

Status Intake::restore(ByteView key, ByteView value) {
    const auto uuid = cursor_key_decode(key);
    if (!uuid) return std::unexpected(uuid.error());
    auto cursor = decode_cursor(value);
    if (!cursor) return std::unexpected(cursor.error());
    if (by_uuid_.contains(*uuid)) return fail(Code::conflict, "two cursors of one ring");
    Producer& producer =
        add_producer({cursor->run, cursor->project, cursor->producer, cursor->attempt, cursor->run_created_ns});
    producer.origin.attempt = std::max(producer.origin.attempt, cursor->attempt);
    producer.number = std::max(producer.number, cursor->producer_number);
    producer.restored = true;
    add_ring(*uuid, producer).cursor = std::move(*cursor);
    judge_restored(producer);
    return {};
}

Status Intake::check_info(const RingInfo& info) const {
    if (!run_id_valid(info.run) || info.producer.is_nil() || info.ring.is_nil() || !texts_valid(info))
        return fail(Code::invalid, "description of a producer");
    if (!metrics_valid(info.series) || !metrics_valid(info.block.metrics)) return fail(Code::invalid, "metric of a ring");
    const Block& b = info.block;
    const bool is_block = info.kind == ring::RingKind::block;
    if (is_block != (b.block != 0)) return fail(Code::invalid, "block of a ring", b.block);
    if (is_block && (b.metrics.empty() || b.metrics.size() > ring::metrics_max || b.env_count == 0 ||
                     b.env_count > ring::envs_max || std::uint64_t{b.env_first} + b.env_count > UINT32_MAX))
        return fail(Code::invalid, "shape of a block", b.env_count);
    if (const auto it = producers_.find(info.producer); it != producers_.end()) {
        const parcel::Origin& o = it->second->origin;
        if (o.run != info.run || o.project != info.project) return fail(Code::conflict, "producer of another run");
    }
    if (const auto it = by_uuid_.find(info.ring); it != by_uuid_.end()) {
        const Ring& known = *it->second;
        if (known.attached) return fail(Code::busy, "ring is attached already");
        if (known.producer->id != info.producer) return fail(Code::conflict, "ring of another producer");
        if (known.cursor.block != b.block) return fail(Code::conflict, "ring of another block", b.block);
        if (known.cursor.end == RingEnd::corrupt) return fail(Code::corrupt, "ring whose loss is declared");
    }
    return {};
}

void Intake::describe(Ring& ring, const RingInfo& info) {
    ring.cursor.block = info.block.block;
    ring.block = info.block;
    ring.series = info.series;
    ring.seeds.clear();
    parcel::ProducerRecord& d = ring.producer->description;
    d.pid = info.pid;
    d.producers_declared = info.producers_declared;
    d.fork_step = info.fork_step;
    d.role = info.role;
    d.host = info.host;
    d.labels = info.labels;
    d.continues = info.continues;
    d.name = info.name;
}

Result<Attached> Intake::attach(const RingInfo& info, std::int64_t now_wall_ns) {
    TALLY_TRY(check_info(info));
    const bool producer_known = producers_.contains(info.producer);
    const std::int64_t created = info.run_created_ns != 0 ? info.run_created_ns : info.opened_ns;
    Producer& producer = add_producer({info.run, info.project, info.producer, info.attempt, created});
    const auto known = by_uuid_.find(info.ring);
    Attached out;
    if (known != by_uuid_.end()) out.resume = known->second->cursor;
    Ring& ring = known != by_uuid_.end() ? *known->second : add_ring(info.ring, producer);
    describe(ring, info);
    std::erase(removals_, info.ring);
    ring.attached = true;
    ring.ended = false;
    ring.cursor.end = RingEnd::open;
    // Its cursor is committed with the OPENED record, so that the next life does not write it again; where reading does not
    // begin at 0, the first record has to say where it stands.
    if (out.resume || info.tail == 0) touch(ring);
    open_producer(producer, producer_known, now_wall_ns);
    out.handle = ring.handle;
    return out;
}

// ---- losses ------------------------------------------------------------------------------------------------------

void Intake::gap(const parcel::Origin& origin, parcel::Gap gap) {
    OriginDraft& draft = drafts_.origin(origin);
    draft.gap(std::move(gap));
    drafts_.check_live(draft);
}

void Intake::loss(parcel::Gap gap_record) {
    gap(parcel::Origin{}, std::move(gap_record));
    ++losses_;
}

void Intake::gap(RingHandle handle, parcel::Gap gap_record) {
    Ring& ring = ring_of(handle);
    gap(origin_at(ring, ring.cursor.attempt), std::move(gap_record));
}

// Slots fill in order and only the newest one grows, so the points declared so far tell where to go on.
void Intake::drops(RingHandle handle, std::span<const Drop> slots, std::int64_t now_wall_ns) {
    Ring& ring = ring_of(handle);
    std::uint64_t declared = ring.cursor.dropped_points;
    for (const Drop& slot : slots) {
        const std::uint64_t known = std::min(declared, slot.points);
        declared -= known;
        const std::uint64_t fresh = slot.points - known;
        if (fresh == 0 || __builtin_add_overflow(ring.cursor.dropped_points, fresh, &ring.cursor.dropped_points)) continue;
        parcel::Gap g;
        g.time_ns = now_wall_ns;
        g.block = slot.block;
        g.step_first = slot.step_first;
        g.step_last = std::max(slot.step_first, slot.step_last);
        g.points = fresh;
        g.reason = reason_name(slot.reason);
        gap(handle, std::move(g));
        touch(ring);
    }
}

void Intake::corrupt(RingHandle handle, std::uint64_t points_lost, std::int64_t now_wall_ns) {
    Ring& ring = ring_of(handle);
    if (!ring.attached) return;
    ring.attached = false;
    parcel::Gap g;
    g.time_ns = now_wall_ns;
    g.block = ring.cursor.block;
    g.points = points_lost;
    g.reason = "ring_corrupt";
    g.step_first = INT64_MIN;
    g.step_last = INT64_MAX;
    gap(handle, std::move(g));
    ring.cursor.end = RingEnd::corrupt;
    touch(ring);
    ++counters_.corrupt;
    maybe_close(*ring.producer, now_wall_ns);
}

// ---- batches -----------------------------------------------------------------------------------------------------

bool Intake::batch_ready(std::int64_t now_monotonic_ns) {
    if (!pending()) {
        pending_since_ns_ = 0;
        return false;
    }
    if (pending_since_ns_ == 0) pending_since_ns_ = now_monotonic_ns;
    return now_monotonic_ns - pending_since_ns_ >= options_.batch_interval_ns ||
           drafts_.bytes() >= options_.batch_bytes_max || drafts_.parcels() >= parcels_per_batch;
}

std::optional<Batch> Intake::cut(std::int64_t now_wall_ns) {
    if (!pending()) return std::nullopt;
    for (Ring* ring : dirty_) drafts_.add_frames(ring->frames);
    if (!drafts_.has_live()) {  // only cursors moved, and a group needs a live parcel
        parcel::ProducerRecord r;
        r.what = parcel::ProducerWhat::heartbeat;
        r.time_ns = now_wall_ns;
        r.totals = totals(*dirty_.front()->producer);
        write_record(*dirty_.front()->producer, std::move(r));
    }
    Batch batch;
    batch.parcels = drafts_.take(now_wall_ns);
    for (Ring* ring : dirty_) {
        ring->dirty = false;
        ring->cursor.producer_number = ring->producer->number;
        batch.marks.push_back({ring->handle, ring->cursor.position});
        if (!ring->attached) ring->frames = FrameDraft{};  // its buffers are large, and it may stay for long
        batch.cursors.push_back({cursor_key(ring->uuid), encode(ring->cursor)});
    }
    dirty_.clear();
    forget_ended();
    for (const Uuid& ring : std::exchange(removals_, {})) batch.cursors.push_back({cursor_key(ring), {}});
    for (const DraftParcel& p : batch.parcels) {
        batch.points += p.points;
        counters_.parcel_bytes += p.bytes.size();
    }
    batch.losses = losses_;
    counters_.parcels += batch.parcels.size();
    ++counters_.batches;
    pending_since_ns_ = 0;
    return batch;
}

}  // namespace tally::intake
