// SPDX-License-Identifier: Apache-2.0
// Sections 6 to 9: events, producers, gaps, start.
#include "agent/parcel/fields.hpp"

namespace tally::parcel {

namespace {

constexpr std::size_t event_fixed_bytes = 8 + 2 + 2 + 4;
constexpr std::size_t totals_bytes = 16 + 4 + 9 * 8;
constexpr std::size_t record_fixed_bytes = 2 + 8 + 8 + 8 + 8 + 4 + 2 + 2 + 4 + 2 + 2 + 4;
constexpr std::size_t ended_bytes = 8 + 8 + 8 * lane_count;
constexpr std::size_t gap_fixed_bytes = 8 + 4 + 16 + 8 + 2 + 16 + 1 + 8 + 1 + 16;

void write_totals(ByteWriter& w, const RingTotals& t) {
    w.put(t.ring);
    w.put(t.block);
    w.put(t.records);
    w.put(t.points);
    w.put(t.dropped_points);
    w.put(t.episodes);
    w.put(t.events);
    w.put(t.stats);
    w.put(t.episodes_hash);
    w.put(t.events_hash);
    w.put(t.stats_hash);
}

RingTotals read_totals(FieldReader& in) {
    RingTotals t;
    t.ring = in.uuid();
    t.block = in.get<std::uint32_t>();
    t.records = in.get<std::uint64_t>();
    t.points = in.get<std::uint64_t>();
    t.dropped_points = in.get<std::uint64_t>();
    t.episodes = in.get<std::uint64_t>();
    t.events = in.get<std::uint64_t>();
    t.stats = in.get<std::uint64_t>();
    t.episodes_hash = in.get<std::uint64_t>();
    t.events_hash = in.get<std::uint64_t>();
    t.stats_hash = in.get<std::uint64_t>();
    return t;
}

void write_record(ByteWriter& w, const ProducerRecord& r) {
    w.put(r.what);
    w.put(r.end);
    w.put(r.number);
    w.put(r.time_ns);
    w.put(r.pid);
    w.put(r.producers_declared);
    w.put(r.fork_step);
    w.put(r.exit_code);
    w.text16(r.role);
    w.text16(r.host);
    w.text32(r.labels);
    w.text16(r.continues);
    w.text16(r.name);
    w.put(static_cast<std::uint32_t>(r.totals.size()));
    for (const RingTotals& t : r.totals) write_totals(w, t);
}

ProducerRecord read_record(FieldReader& in) {
    ProducerRecord r;
    const auto what = in.get<std::uint8_t>();
    const auto end = in.get<std::uint8_t>();
    if (in.ok()) in.require(what >= 1 && what <= 5 && end <= 3, "kind of a producer record");
    r.what = static_cast<ProducerWhat>(what);
    r.end = static_cast<ProducerEnd>(end);
    r.number = in.get<std::uint64_t>();
    r.time_ns = in.get<std::int64_t>();
    r.pid = in.get<std::uint32_t>();
    r.producers_declared = in.get<std::uint32_t>();
    r.fork_step = in.get<std::int64_t>();
    r.exit_code = in.get<std::int32_t>();
    r.role = in.text16();
    r.host = in.text16();
    r.labels = in.text32();
    r.continues = in.text16();
    r.name = in.text16();
    const std::uint32_t n = in.count(totals_bytes);
    r.totals.reserve(n);
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) r.totals.push_back(read_totals(in));
    return r;
}

void write_gap(ByteWriter& w, const Gap& g) {
    w.put(g.time_ns);
    w.put(g.block);
    w.put(g.step_first);
    w.put(g.step_last);
    w.put(g.points);
    w.text16(g.reason);
    w.put(g.spool);
    w.put(static_cast<std::uint8_t>(g.lane_known));
    w.put(g.start);
    w.put(g.lane);
    w.put(g.seq_first);
    w.put(g.seq_last);
}

Gap read_gap(FieldReader& in) {
    Gap g;
    g.time_ns = in.get<std::int64_t>();
    g.block = in.get<std::uint32_t>();
    g.step_first = in.get<std::int64_t>();
    g.step_last = in.get<std::int64_t>();
    g.points = in.get<std::uint64_t>();
    g.reason = in.text16();
    g.spool = in.uuid();
    g.lane_known = in.flag();
    g.start = in.get<StartId>();
    const auto lane = in.get<std::uint8_t>();
    if (in.ok()) in.require(lane < lane_count, "lane of a gap");
    g.lane = static_cast<Lane>(lane);
    g.seq_first = in.get<std::uint64_t>();
    g.seq_last = in.get<std::uint64_t>();
    return g;
}

}  // namespace

void write_events(const EventSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    w.put(static_cast<std::uint32_t>(section.events.size()));
    for (const Event& e : section.events) {
        w.put(e.time_ns);
        w.text16(e.kind);
        w.text16(e.key);
        w.text32(e.text);
    }
}

Result<EventSection> read_events(ByteView body) {
    FieldReader in(body);
    EventSection out;
    out.origin = in.origin();
    const std::uint32_t n = in.count(event_fixed_bytes);
    out.events.reserve(n);
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) {
        Event e;
        e.time_ns = in.get<std::int64_t>();
        e.kind = in.text16();
        e.key = in.text16();
        e.text = in.text32();
        out.events.push_back(std::move(e));
    }
    TALLY_TRY(in.finish("events section"));
    return out;
}

void write_producers(const ProducerSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    w.put(static_cast<std::uint32_t>(section.records.size()));
    for (const ProducerRecord& r : section.records) write_record(w, r);
}

Result<ProducerSection> read_producers(ByteView body) {
    FieldReader in(body);
    ProducerSection out;
    out.origin = in.origin();
    const std::uint32_t n = in.count(record_fixed_bytes);
    out.records.reserve(n);
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) out.records.push_back(read_record(in));
    TALLY_TRY(in.finish("producers section"));
    return out;
}

void write_gaps(const GapSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    w.put(static_cast<std::uint32_t>(section.gaps.size()));
    for (const Gap& g : section.gaps) write_gap(w, g);
}

Result<GapSection> read_gaps(ByteView body) {
    FieldReader in(body);
    GapSection out;
    out.origin = in.origin();
    const std::uint32_t n = in.count(gap_fixed_bytes);
    out.gaps.reserve(n);
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) out.gaps.push_back(read_gap(in));
    TALLY_TRY(in.finish("gaps section"));
    return out;
}

void write_start(const StartSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    w.text16(section.version);
    w.text16(section.host);
    w.put(static_cast<std::uint32_t>(section.ended.size()));
    for (const EndedLife& e : section.ended) {
        w.put(e.start);
        w.put(e.group);
        for (const std::uint64_t seq : e.seq) w.put(seq);
    }
}

Result<StartSection> read_start(ByteView body) {
    FieldReader in(body);
    StartSection out;
    out.origin = in.origin();
    out.version = in.text16();
    out.host = in.text16();
    const std::uint32_t n = in.count(ended_bytes);
    if (n > StartSection::ended_max) return fail(Code::too_big, "ended lives of a start section", n);
    out.ended.resize(n);
    for (EndedLife& e : out.ended) {
        e.start = in.get<StartId>();
        e.group = in.get<std::uint64_t>();
        for (std::uint64_t& seq : e.seq) seq = in.get<std::uint64_t>();
    }
    TALLY_TRY(in.finish("start section"));
    return out;
}

}  // namespace tally::parcel
