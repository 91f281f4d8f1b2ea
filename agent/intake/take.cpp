// SPDX-License-Identifier: Apache-2.0
// One record of a ring: parsed first, then added to the batch, then the cursor moves.
#include <algorithm>

#include "agent/base/hash.hpp"
#include "agent/intake/intake.hpp"
#include "agent/parcel/row_hash.hpp"

namespace tally::intake {

using ring::RecordKind;

namespace {

parcel::MaybeStep rl_step_of(const ring::RecordHeader& h) {
    const bool given = (h.flags & ring::flag_has_rl_step) != 0;
    return {given, given ? h.rl_step : 0};
}

}  // namespace

parcel::Origin Intake::origin_at(const Ring& ring, std::uint32_t attempt) const {
    parcel::Origin o = ring.producer->origin;
    o.attempt = attempt;
    return o;
}

Status Intake::frame(Ring& ring, const ring::RecordHeader& header, ByteView body) {
    TALLY_TRY(parse_frame(body, ring.block, frame_record_));
    const parcel::Origin origin = origin_at(ring, header.attempt);
    if (ring.seeds.empty() || ring.seeds_attempt != header.attempt) {
        ring.seeds.clear();
        for (const parcel::Metric& m : ring.block.metrics)
            ring.seeds.push_back(series_seed(origin.run, origin.producer, header.attempt, m.dtype, m.name));
        ring.seeds_attempt = header.attempt;
    }
    if (!ring.frames.empty() && ring.frames.origin().attempt != header.attempt) drafts_.add_frames(ring.frames);
    const FrameTarget target{ring.block, origin, ring.seeds, ring.frames};
    const StatsAdded stats = encoder_.encode(target, frame_record_, header.time_ns, rl_step_of(header));
    ring.cursor.stats += stats.rows;
    ring.cursor.stats_hash += stats.hash;
    counters_.points += frame_record_.points();
    counters_.stats_left_out += static_cast<std::uint64_t>(stats.rows == 0 && frame_record_.n != 0);
    return {};
}

Status Intake::scalars(Ring& ring, const ring::RecordHeader& header, ByteView body) {
    const auto record = parse_scalars(body, ring.series);
    if (!record) return std::unexpected(record.error());
    OriginDraft& draft = drafts_.origin(origin_at(ring, header.attempt));
    for (std::size_t i = 0; i < record->count(); ++i) {
        const ring::ScalarValue v = record->at(i);
        draft.scalar(ring.series[v.series], record->step, header.time_ns, rl_step_of(header), v.bits);
        drafts_.check_scalars(draft);
    }
    counters_.points += record->count();
    return {};
}

Status Intake::episodes(Ring& ring, const ring::RecordHeader& header, ByteView body) {
    const auto episodes = parse_episodes(body);
    if (!episodes) return std::unexpected(episodes.error());
    if (episodes->empty()) return {};
    const parcel::Origin origin = origin_at(ring, header.attempt);
    const std::uint64_t seed = parcel::row_seed(origin, "episodes");
    for (const parcel::EpisodeHeader& e : *episodes) ring.cursor.episodes_hash += parcel::row_hash(seed, e);
    OriginDraft& draft = drafts_.origin(origin);
    draft.episodes(*episodes);
    drafts_.check_live(draft);
    ring.cursor.episodes += episodes->size();
    return {};
}

Status Intake::event(Ring& ring, const ring::RecordHeader& header, ByteView body) {
    auto event = parse_event(body);
    if (!event) return std::unexpected(event.error());
    event->time_ns = header.time_ns;
    const parcel::Origin origin = origin_at(ring, header.attempt);
    ring.cursor.events_hash += parcel::row_hash(parcel::row_seed(origin, "events"), *event);
    OriginDraft& draft = drafts_.origin(origin);
    draft.event(std::move(*event));
    drafts_.check_live(draft);
    ring.cursor.events += 1;
    return {};
}

Status Intake::rewind(Ring& ring, const ring::RecordHeader& header, ByteView body) {
    const auto fork_step = parse_rewind(body);
    if (!fork_step) return std::unexpected(fork_step.error());
    parcel::ProducerRecord r = ring.producer->description;
    r.what = parcel::ProducerWhat::rewound;
    r.time_ns = header.time_ns;
    r.fork_step = *fork_step;
    r.number = next_number(*ring.producer, 0);  // the record's own time is the trainer's to give
    OriginDraft& draft = drafts_.origin(origin_at(ring, header.attempt));
    draft.producer(std::move(r));
    drafts_.check_live(draft);
    return {};
}

Status Intake::close(Ring& ring, ByteView body) {
    const auto close = parse_close(body);
    if (!close) return std::unexpected(close.error());
    ring.producer->close_seen = true;
    ring.producer->exit_code = close->exit_code;
    ring.producer->rings_used = close->rings_used;
    ring.cursor.end = RingEnd::finished;  // nothing follows; tells a later life that the close record was read
    return {};
}

Status Intake::dispatch(Ring& ring, const ring::RecordHeader& header, ByteView body) {
    switch (header.kind) {
        case RecordKind::frame: return frame(ring, header, body);
        case RecordKind::scalars: return scalars(ring, header, body);
        case RecordKind::episodes: return episodes(ring, header, body);
        case RecordKind::event: return event(ring, header, body);
        case RecordKind::rewind: return rewind(ring, header, body);
        case RecordKind::close: return close(ring, body);
        case RecordKind::file: break;
    }
    if ((header.flags & ring::flag_optional) != 0) return {};
    return fail(Code::unsupported, "record kind", static_cast<std::uint64_t>(header.kind));
}

Status Intake::record(RingHandle handle, const ring::RecordHeader& header, ByteView body, std::uint64_t position_after) {
    Ring& ring = ring_of(handle);
    TALLY_ASSERT(ring.attached && position_after > ring.cursor.position);
    TALLY_TRY(dispatch(ring, header, body));
    ring.cursor.position = position_after;
    ring.cursor.record_number = header.number;
    ring.cursor.points_total = header.points_total;
    ring.cursor.attempt = header.attempt;
    ring.producer->origin.attempt = std::max(ring.producer->origin.attempt, header.attempt);
    touch(ring);
    ++counters_.records;
    return {};
}

}  // namespace tally::intake
