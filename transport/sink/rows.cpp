// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/rows.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "agent/base/log.hpp"
#include "transport/sink/tables.hpp"

namespace tally::sink {

namespace {

constexpr unsigned rows_per_section_bits = 20;
constexpr std::uint32_t refusal_row = (1U << rows_per_section_bits) - 1;  // of the gap row a refused section leaves

constexpr std::int64_t ns_per_s = 1'000'000'000;
constexpr std::uint32_t no_month = 197001;

void add_origin(OriginColumns& c, const parcel::Identity& id, std::uint32_t row_first, std::size_t n, std::uint32_t month,
                std::uint64_t batch) {
    c.start.add(n, raw(id.id.start));
    c.lane.add(n, static_cast<std::uint8_t>(id.id.lane));
    c.seq.add(n, raw(id.id.seq));
    for (std::size_t i = 0; i < n; ++i) c.row.add(row_first + static_cast<std::uint32_t>(i));
    c.month.add(n, month);
    c.batch.add(n, batch);
}

// Steps may wrap in a hostile parcel; unsigned arithmetic keeps that defined.
std::int64_t step_at(std::int64_t first, std::int64_t stride, std::uint64_t n) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(stride) * n);
}

bool arithmetic(const std::int64_t* steps, std::size_t n) {
    if (n < 2) return true;
    const auto stride = static_cast<std::uint64_t>(steps[1]) - static_cast<std::uint64_t>(steps[0]);
    if (static_cast<std::int64_t>(stride) <= 0) return false;
    for (std::size_t i = 2; i < n; ++i)
        if (static_cast<std::uint64_t>(steps[i]) - static_cast<std::uint64_t>(steps[i - 1]) != stride) return false;
    return true;
}

bool all_equal(const std::int64_t* values, std::size_t n) {
    return std::all_of(values, values + n, [&](std::int64_t v) { return v == values[0]; });
}

}  // namespace

std::uint32_t month_of(std::int64_t wall_ns) {
    if (wall_ns < 0) return no_month;
    const std::chrono::sys_seconds when{std::chrono::seconds(wall_ns / ns_per_s)};
    const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(when)};
    return static_cast<std::uint32_t>(static_cast<int>(day.year())) * 100 + static_cast<unsigned>(day.month());
}

struct RowBuilder::Parcel {
    const parcel::ParcelView& view;
    const parcel::Identity& id;
    std::uint32_t row = 0;  // number of the next row
    std::uint64_t points = 0;
    std::uint64_t section_points = 0;
    std::map<std::string, std::pair<std::uint32_t, std::uint64_t>> runs;  // run -> month, points of it
    // Of the section at hand, once its origin is known.
    std::string run;
    std::uint32_t month = no_month;
};

RowBuilder::RowBuilder(std::uint64_t batch) : batch_(batch) {}
RowBuilder::~RowBuilder() = default;

MonthTables& RowBuilder::month(std::int64_t created_ns) {
    const std::uint32_t number = month_of(created_ns);
    auto& slot = months_[number];
    if (!slot) {
        slot = std::make_unique<MonthTables>();
        slot->month = number;
        for (Block* block : slot->blocks()) block->set_month(number);
    }
    return *slot;
}

std::vector<Block*> RowBuilder::blocks() {
    std::vector<Block*> out;
    for (std::size_t table = 0; table < 12; ++table)
        for (auto& [number, tables] : months_)
            if (Block* block = tables->blocks()[table]; block->rows() != 0) out.push_back(block);
    return out;
}

void RowBuilder::add_parcel(ByteView bytes) {
    const auto view = parcel::ParcelView::open(bytes);
    if (!view) {  // the receiver checked it: this is damage between there and here
        ++refused_parcels_;
        log_error("sink.parcel_refused", {{"error", view.error()}});
        return;
    }
    Parcel at{*view, view->identity(), 0, 0, 0, {}, {}, no_month};
    for (std::size_t i = 0; i < view->sections().size(); ++i) {
        for (auto& [number, tables] : months_)
            for (Block* block : tables->blocks()) block->mark();
        // Per section, so that a section this build refuses and another accepts shifts no number of the others.
        const std::uint32_t first_row = static_cast<std::uint32_t>(i) << rows_per_section_bits;
        at.row = first_row;
        at.run.clear();
        at.month = no_month;
        at.section_points = 0;
        Status done = add_section(at, i);
        if (done && at.row - first_row > refusal_row) done = fail(Code::too_big, "sink: rows of one section", at.row - first_row);
        if (!done) {
            for (auto& [number, tables] : months_)
                for (Block* block : tables->blocks()) block->rollback();
            at.row = first_row | refusal_row;
            add_refused(at, i, done.error());
            continue;
        }
        auto& [run_month, run_points] = at.runs[at.run];
        run_month = at.month;
        run_points += at.section_points;
        at.points += at.section_points;
    }
    add_parcel_rows(at);
    points_ += at.points;
}

Status RowBuilder::add_section(Parcel& at, std::size_t index) {
    const parcel::SectionEntry& entry = at.view.sections()[index];
    const auto kind = static_cast<parcel::SectionKind>(entry.kind);
    if (entry.kind == 0 || kind > parcel::SectionKind::start) {
        if ((entry.flags & parcel::section_optional) != 0) return {};
        return fail(Code::unsupported, "sink: section kind", entry.kind);
    }
    body_.clear();
    const auto body = at.view.body(index, body_);
    if (!body) return std::unexpected(body.error());
    switch (kind) {
        case parcel::SectionKind::frames: return add_frames(at, *body);
        case parcel::SectionKind::scalars: return add_scalars(at, *body);
        case parcel::SectionKind::ledger: return add_ledger(at, *body);
        case parcel::SectionKind::episodes: return add_episodes(at, *body);
        case parcel::SectionKind::stats: return add_stats(at, *body);
        case parcel::SectionKind::events: return add_events(at, *body);
        case parcel::SectionKind::producers: return add_producers(at, *body);
        case parcel::SectionKind::gaps: return add_gaps(at, *body);
        case parcel::SectionKind::start: return add_start(at, *body);
        case parcel::SectionKind::file: break;
    }
    return {};
}

void RowBuilder::add_refused(Parcel& at, std::size_t index, const Error& why) {
    ++refused_sections_;
    log_error("sink.section_refused", {{"start", raw(at.id.id.start)}, {"lane", lane_name(at.id.id.lane)},
                                       {"seq", raw(at.id.id.seq)}, {"section", index}, {"error", why}});
    MonthTables& tables = month(at.view.header().created_ns);
    GapsTable& t = tables.gaps;
    const std::uint64_t seq = raw(at.id.id.seq);
    t.run.add(at.run);
    t.producer.add(1, Uuid{});
    t.attempt.add(0);
    t.time_ns.add(at.view.header().created_ns);
    t.layout.add(0);
    t.step_first.add(0);
    t.step_last.add(0);
    t.points.add(0);
    t.reason.add("section_refused");
    t.spool.add(1, at.id.spool);
    t.lane_known.add(1);
    t.start.add(raw(at.id.id.start));
    t.lane.add(static_cast<std::uint8_t>(at.id.id.lane));
    t.seq_first.add(seq);
    t.seq_last.add(seq);
    add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
}

Status RowBuilder::add_frames(Parcel& at, ByteView body) {
    const auto section = parcel::read_frames(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    for (const parcel::Tile& tile : section->tiles) TALLY_TRY(add_tile(at, tables, *section, tile));
    return {};
}

Status RowBuilder::add_tile(Parcel& at, MonthTables& tables, const parcel::FrameSection& section, const parcel::Tile& tile) {
    const parcel::TileHeader& h = tile.header;
    if (h.frame >= section.frames.size() || h.metric >= section.metrics.size() || h.items == 0 || h.steps == 0 ||
        h.items > parcel::tile_envs_max || h.steps > parcel::tile_steps_max)
        return fail(Code::corrupt, "sink: tile");
    const parcel::Frame& frame = section.frames[h.frame];
    const std::uint64_t items_end = std::uint64_t{h.item_first} + h.items;
    if (items_end > (frame.rows_listed ? frame.rows.size() : section.env_count) || std::uint64_t{h.step_offset} + h.steps > frame.steps)
        return fail(Code::corrupt, "sink: tile outside its frame");
    const std::size_t values = std::size_t{h.items} * h.steps;
    at.section_points += values;
    if (at.points + at.section_points > parcel_points_max) return fail(Code::too_big, "sink: points of one parcel");

    const parcel::Metric& metric = section.metrics[h.metric];
    planes_.clear();
    TALLY_TRY(parcel::decode_tile(tile, metric.dtype, planes_));
    PointsTable& t = tables.points(dtype_width(metric.dtype));
    const std::size_t chunk = std::max<std::size_t>(1, parcel::row_values_max / h.steps);
    const std::size_t n = (h.items + chunk - 1) / chunk;
    t.planes.add(planes_, values, chunk * h.steps);
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t item = h.item_first + i * chunk;
        if (!frame.rows_listed) {
            t.env_first.add(section.env_first + static_cast<std::uint32_t>(item));
            continue;
        }
        const std::size_t count = std::min<std::size_t>(chunk, items_end - item);
        std::uint16_t offsets[parcel::row_values_max];
        for (std::size_t k = 0; k < count; ++k) {
            const std::uint32_t offset = frame.rows[item + k] - frame.rows[item];
            if (offset > UINT16_MAX) return fail(Code::corrupt, "sink: row list");
            offsets[k] = static_cast<std::uint16_t>(offset);
        }
        t.env_first.add(section.env_first + frame.rows[item]);
        t.idx.add(offsets, count);
    }
    if (!frame.rows_listed) t.idx.add_empty(n);
    const std::int64_t step_first = step_at(frame.step_first, frame.step_stride, h.step_offset);
    t.run.add(n, t.run.key(section.origin.run));
    t.metric.add(n, t.metric.key(metric.name));
    t.step_first.add(n, step_first);
    t.steps.add(n, static_cast<std::uint8_t>(h.steps));
    t.step_stride.add(n, frame.step_stride);
    t.step_last.add(n, step_at(step_first, frame.step_stride, h.steps - 1));
    t.rl_step.add(n, frame.rl_step.given, frame.rl_step.value);
    t.time_ns.add(n, frame.time_ns);
    t.dtype.add(n, static_cast<std::uint8_t>(metric.dtype));
    t.producer.add(n, section.origin.producer);
    t.attempt.add(n, section.origin.attempt);
    t.step_list.add_empty(n);
    t.time_list.add_empty(n);
    t.rl_list.add_empty(n);
    add_origin(t.origin, at.id, at.row, n, tables.month, batch_);
    at.row += static_cast<std::uint32_t>(n);
    return {};
}

Status RowBuilder::add_scalars(Parcel& at, ByteView body) {
    const auto section = parcel::read_scalars(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    for (const parcel::ScalarSeries& s : section->series) {
        const unsigned width = dtype_width(s.metric.dtype);
        PointsTable& t = tables.points(width);
        std::size_t n = 0;
        for (std::size_t from = 0; from < s.bits.size(); from += n) {
            n = 1;
            while (n < parcel::row_values_max && from + n < s.bits.size() && s.rl_steps[from + n].given == s.rl_steps[from].given) ++n;
            const std::int64_t* steps = s.steps.data() + from;
            const std::int64_t* times = s.times_ns.data() + from;
            const auto [low, high] = std::minmax_element(steps, steps + n);
            std::int64_t rl[parcel::row_values_max];
            for (std::size_t i = 0; i < n; ++i) rl[i] = s.rl_steps[from + i].value;
            planes_.resize(n * width);
            for (unsigned p = 0; p < width; ++p)
                for (std::size_t i = 0; i < n; ++i) planes_[p * n + i] = static_cast<std::uint8_t>(s.bits[from + i] >> (8 * p));
            const bool regular = arithmetic(steps, n);
            const bool given = s.rl_steps[from].given;
            t.run.add(section->origin.run);
            t.metric.add(s.metric.name);
            t.env_first.add(0);
            t.step_first.add(*low);
            t.steps.add(static_cast<std::uint8_t>(n));
            t.step_stride.add(regular && n > 1 ? step_at(steps[1], -1, static_cast<std::uint64_t>(steps[0])) : 1);
            t.step_last.add(*high);
            t.rl_step.add(1, given, rl[0]);
            t.time_ns.add(times[0]);
            t.dtype.add(static_cast<std::uint8_t>(s.metric.dtype));
            t.producer.add(1, section->origin.producer);
            t.attempt.add(section->origin.attempt);
            t.idx.add_empty(1);
            t.step_list.add(steps, regular ? 0 : n);
            t.time_list.add(times, all_equal(times, n) ? 0 : n);
            t.rl_list.add(rl, !given || all_equal(rl, n) ? 0 : n);
            t.planes.add(planes_, n, n);
            add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
        }
        at.section_points += s.bits.size();
    }
    return {};
}

void RowBuilder::add_parcel_rows(Parcel& at) {
    if (at.runs.empty()) at.runs[""] = {month_of(at.view.header().created_ns), 0};
    for (const auto& [run, what] : at.runs) {
        ParcelsTable& t = month(at.view.header().created_ns).parcels;
        t.spool.add(1, at.id.spool);
        t.start.add(raw(at.id.id.start));
        t.lane.add(static_cast<std::uint8_t>(at.id.id.lane));
        t.seq.add(raw(at.id.id.seq));
        t.run.add(run);
        t.group.add(raw(at.id.group));
        t.points.add(what.second);
        t.xxh3.add(at.view.header().xxh3);
        t.created_ns.add(at.view.header().created_ns);
        t.month.add(month_of(at.view.header().created_ns));
        t.batch.add(batch_);
    }
}

// ---- live lane -----------------------------------------------------------------------------------------------

Status RowBuilder::add_ledger(Parcel& at, ByteView body) {
    const auto section = parcel::read_ledger(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    LedgerTable& t = tables.ledger;
    std::vector<std::uint32_t> envs;
    std::vector<std::uint32_t> counts;
    for (const parcel::LedgerEntry& e : section->entries) {
        if (e.metric >= section->metrics.size()) return fail(Code::corrupt, "sink: ledger metric");
        const parcel::Metric& metric = section->metrics[e.metric];
        envs.clear();
        counts.clear();
        for (const parcel::EnvCount& c : e.env_points) {
            envs.push_back(c.env);
            counts.push_back(c.points);
        }
        t.run.add(section->origin.run);
        t.metric.add(metric.name);
        t.dtype.add(static_cast<std::uint8_t>(metric.dtype));
        t.producer.add(1, section->origin.producer);
        t.attempt.add(section->origin.attempt);
        t.env_first.add(e.env_first);
        t.env_count.add(e.env_count);
        t.step_first.add(e.step_first);
        t.step_last.add(e.step_last);
        t.points.add(e.points);
        t.hash.add(e.hash);
        t.when.add(e.when);
        t.env_list.add(envs);
        t.env_points.add(counts);
        add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
    }
    return {};
}

Status RowBuilder::add_episodes(Parcel& at, ByteView body) {
    const auto section = parcel::read_episodes(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    EpisodesTable& t = tables.episodes;
    for (const parcel::EpisodeHeader& e : section->episodes) {
        t.run.add(section->origin.run);
        t.producer.add(1, section->origin.producer);
        t.attempt.add(section->origin.attempt);
        t.env.add(e.env);
        t.episode.add(e.episode);
        t.step_first.add(e.step_first);
        t.step_last.add(e.step_last);
        t.points_expected.add(e.points_expected);
        t.ret.add(e.ret);
        t.length.add(e.length);
        add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
    }
    return {};
}

Status RowBuilder::add_stats(Parcel& at, ByteView body) {
    const auto section = parcel::read_stats(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    StatsTable& t = tables.stats;
    for (const parcel::StepStats& s : section->stats) {
        if (s.metric >= section->metrics.size()) return fail(Code::corrupt, "sink: stats metric");
        const parcel::Metric& metric = section->metrics[s.metric];
        t.run.add(section->origin.run);
        t.metric.add(metric.name);
        t.dtype.add(static_cast<std::uint8_t>(metric.dtype));
        t.producer.add(1, section->origin.producer);
        t.attempt.add(section->origin.attempt);
        t.env_first.add(s.env_first);
        t.env_count.add(s.env_count);
        t.step.add(s.step);
        t.time_ns.add(s.time_ns);
        t.count.add(s.count);
        t.nonfinite.add(s.nonfinite);
        t.min.add(s.min);
        t.max.add(s.max);
        t.sum.add(s.sum);
        t.sum_squares.add(s.sum_squares);
        t.bins.add(s.bins);
        t.bin_counts.add(s.bin_counts);
        add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
    }
    return {};
}

Status RowBuilder::add_events(Parcel& at, ByteView body) {
    const auto section = parcel::read_events(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    EventsTable& t = tables.events;
    for (const parcel::Event& e : section->events) {
        t.run.add(section->origin.run);
        t.producer.add(1, section->origin.producer);
        t.attempt.add(section->origin.attempt);
        t.time_ns.add(e.time_ns);
        t.kind.add(e.kind);
        t.key.add(e.key);
        t.text.add(e.text);
        add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
    }
    return {};
}

Status RowBuilder::add_producers(Parcel& at, ByteView body) {
    const auto section = parcel::read_producers(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    ProducersTable& t = tables.producers;
    for (const parcel::ProducerRecord& r : section->records) {
        t.run.add(section->origin.run);
        t.project.add(section->origin.project);
        t.producer.add(1, section->origin.producer);
        t.attempt.add(section->origin.attempt);
        t.run_created_ns.add(section->origin.run_created_ns);
        t.what.add(static_cast<std::uint8_t>(r.what));
        t.end.add(static_cast<std::uint8_t>(r.end));
        t.number.add(r.number);
        t.time_ns.add(r.time_ns);
        t.pid.add(r.pid);
        t.declared.add(r.producers_declared);
        t.fork_step.add(r.fork_step);
        t.exit_code.add(r.exit_code);
        t.role.add(r.role);
        t.host.add(r.host);
        t.labels.add(r.labels);
        t.continues.add(r.continues);
        t.name.add(r.name);
        std::vector<Uuid> rings;
        std::vector<std::uint32_t> blocks;
        std::vector<std::uint64_t> columns[9];
        for (const parcel::RingTotals& ring : r.totals) {
            rings.push_back(ring.ring);
            blocks.push_back(ring.block);
            const std::uint64_t values[9] = {ring.records, ring.points, ring.dropped_points, ring.episodes, ring.events, ring.stats,
                                             ring.episodes_hash, ring.events_hash, ring.stats_hash};
            for (std::size_t i = 0; i < 9; ++i) columns[i].push_back(values[i]);
        }
        t.ring.add(rings);
        t.ring_block.add(blocks);
        t.records.add(columns[0]);
        t.points.add(columns[1]);
        t.dropped.add(columns[2]);
        t.episodes.add(columns[3]);
        t.events.add(columns[4]);
        t.stats.add(columns[5]);
        t.episodes_hash.add(columns[6]);
        t.events_hash.add(columns[7]);
        t.stats_hash.add(columns[8]);
        add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
    }
    return {};
}

Status RowBuilder::add_gaps(Parcel& at, ByteView body) {
    const auto section = parcel::read_gaps(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(section->origin.run_created_ns);
    at.run = section->origin.run;
    at.month = tables.month;
    GapsTable& t = tables.gaps;
    for (const parcel::Gap& g : section->gaps) {
        t.run.add(section->origin.run);
        t.producer.add(1, section->origin.producer);
        t.attempt.add(section->origin.attempt);
        t.time_ns.add(g.time_ns);
        t.layout.add(g.block);
        t.step_first.add(g.step_first);
        t.step_last.add(g.step_last);
        t.points.add(g.points);
        t.reason.add(g.reason);
        t.spool.add(1, g.spool);
        t.lane_known.add(g.lane_known ? 1 : 0);
        t.start.add(raw(g.start));
        t.lane.add(static_cast<std::uint8_t>(g.lane));
        t.seq_first.add(g.seq_first);
        t.seq_last.add(g.seq_last);
        add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
    }
    return {};
}

Status RowBuilder::add_start(Parcel& at, ByteView body) {
    const auto section = parcel::read_start(body);
    if (!section) return std::unexpected(section.error());
    MonthTables& tables = month(at.view.header().created_ns);
    at.month = tables.month;
    StartsTable& t = tables.starts;
    std::vector<parcel::EndedLife> ended = section->ended;
    if (ended.empty()) ended.emplace_back();  // the first life has its row too
    for (const parcel::EndedLife& e : ended) {
        t.spool.add(1, at.id.spool);
        t.start.add(raw(at.id.id.start));
        t.previous.add(raw(e.start));
        t.previous_group.add(e.group);
        t.previous_seq.add(e.seq, lane_count);
        t.version.add(section->version);
        t.host.add(section->host);
        add_origin(t.origin, at.id, at.row++, 1, tables.month, batch_);
    }
    return {};
}

}  // namespace tally::sink
