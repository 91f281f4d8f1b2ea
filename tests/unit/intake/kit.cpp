// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/intake/kit.hpp"

#include <doctest/doctest.h>

#include "agent/base/hash.hpp"
#include "agent/parcel/planes.hpp"

namespace tally::intake::kit {

namespace {

SeriesKey key_of(const parcel::Origin& o, const parcel::Metric& m) { return {o.producer, o.attempt, m.dtype, m.name}; }

void add_tile(Content& c, const parcel::FrameSection& s, const parcel::Tile& t) {
    const parcel::Metric& metric = s.metrics[t.header.metric];
    const parcel::Frame& f = s.frames[t.header.frame];
    Bytes planes;
    REQUIRE(decode_tile(t, metric.dtype, planes));
    const std::size_t n = std::size_t{t.header.items} * t.header.steps;
    for (std::uint32_t i = 0; i < t.header.items; ++i) {
        const std::uint32_t item = t.header.item_first + i;
        const std::uint32_t env = s.env_first + (f.rows_listed ? f.rows[item] : item);
        for (std::uint32_t k = 0; k < t.header.steps; ++k) {
            const std::uint64_t bits = parcel::plane_bits(planes.data(), dtype_width(metric.dtype), n, i * t.header.steps + k);
            const std::int64_t step = f.step_first + f.step_stride * (t.header.step_offset + k);
            c.points[{key_of(s.origin, metric), env, step}].push_back({bits, f.time_ns, f.rl_step});
        }
    }
}

void add_scalars(Content& c, const parcel::ScalarSection& s) {
    for (const parcel::ScalarSeries& series : s.series)
        for (std::size_t i = 0; i < series.bits.size(); ++i)
            c.points[{key_of(s.origin, series.metric), 0, series.steps[i]}].push_back(
                {series.bits[i], series.times_ns[i], series.rl_steps[i]});
}

void add_ledger(Content& c, const parcel::LedgerSection& s) {
    for (const parcel::LedgerEntry& e : s.entries) {
        const SeriesKey key = key_of(s.origin, s.metrics[e.metric]);
        Sum& sum = c.ledger[key];
        sum.points += e.points;
        sum.hash += e.hash;
        sum.when += e.when;
        std::uint64_t listed = 0;
        for (const parcel::EnvCount& p : e.env_points) {
            c.listed[{key, p.env}] += p.points;
            listed += p.points;
        }
        if (!e.env_points.empty()) CHECK(listed == e.points);
        CHECK(e.points > 0);
        CHECK(e.env_count <= parcel::tile_envs_max);
    }
}

template <class S, class V, class M>
void collect(const Result<S>& section, V& out, M S::*items) {
    REQUIRE(section);
    for (const auto& item : (*section).*items) out.push_back({section->origin, item});
}

void add_section(Content& c, parcel::SectionKind kind, ByteView body) {
    using parcel::SectionKind;
    if (kind == SectionKind::frames) {
        const auto s = parcel::read_frames(body);
        REQUIRE(s);
        for (const parcel::Tile& t : s->tiles) add_tile(c, *s, t);
    } else if (kind == SectionKind::scalars) {
        const auto s = parcel::read_scalars(body);
        REQUIRE(s);
        add_scalars(c, *s);
    } else if (kind == SectionKind::ledger) {
        const auto s = parcel::read_ledger(body);
        REQUIRE(s);
        add_ledger(c, *s);
    } else if (kind == SectionKind::stats) {
        const auto s = parcel::read_stats(body);
        REQUIRE(s);
        for (const parcel::StepStats& row : s->stats) c.stats.push_back({key_of(s->origin, s->metrics[row.metric]), row});
    } else if (kind == SectionKind::episodes) {
        collect(parcel::read_episodes(body), c.episodes, &parcel::EpisodeSection::episodes);
    } else if (kind == SectionKind::events) {
        collect(parcel::read_events(body), c.events, &parcel::EventSection::events);
    } else if (kind == SectionKind::producers) {
        collect(parcel::read_producers(body), c.producers, &parcel::ProducerSection::records);
    } else if (kind == SectionKind::gaps) {
        collect(parcel::read_gaps(body), c.gaps, &parcel::GapSection::gaps);
    } else {
        REQUIRE(kind == SectionKind::start);
        const auto s = parcel::read_start(body);
        REQUIRE(s);
        c.starts.push_back(*s);
    }
}

std::uint64_t count_points(const Points& points) {
    std::uint64_t n = 0;
    for (const auto& [key, seen] : points) n += seen.size();
    return n;
}

}  // namespace

void Content::add(const Batch& batch) {
    REQUIRE_FALSE(batch.parcels.empty());
    CHECK(batch.parcels.front().lane == Lane::live);  // I4
    const std::uint64_t before = count_points(points);
    bool bulk_seen = false;
    for (const DraftParcel& p : batch.parcels) {
        bulk_seen |= p.lane != Lane::live;
        CHECK_FALSE((bulk_seen && p.lane == Lane::live));
        const std::uint64_t before_parcel = count_points(points);
        Bytes bytes = p.bytes;
        parcel::stamp(bytes, {uuid(99), {StartId{1}, p.lane, Seq{++parcels[static_cast<std::size_t>(p.lane)]}}, GroupNo{1}});
        largest_parcel = std::max(largest_parcel, bytes.size());
        const auto view = parcel::ParcelView::open(bytes);
        REQUIRE(view);
        for (std::size_t i = 0; i < view->sections().size(); ++i) {
            const auto kind = static_cast<parcel::SectionKind>(view->sections()[i].kind);
            CHECK((kind == parcel::SectionKind::frames || kind == parcel::SectionKind::scalars) == (p.lane == Lane::bulk));
            Bytes scratch;
            const auto body = view->body(i, scratch);
            REQUIRE(body);
            add_section(*this, kind, *body);
        }
        CHECK(count_points(points) - before_parcel == p.points);
        CHECK(view->header().points == p.points);
    }
    CHECK(count_points(points) - before == batch.points);
    for (const CursorUpdate& u : batch.cursors) {
        if (u.value.empty())
            cursors.erase(u.key);
        else
            cursors[u.key] = u.value;
    }
}

Sums sums_of(const Points& points, std::string_view run) {
    Sums out;
    for (const auto& [key, seen] : points) {
        const SeriesKey& s = key.series;
        const std::uint64_t seed = series_seed(run, s.producer, s.attempt, s.dtype, s.metric);
        Sum& sum = out[s];
        for (const Seen& v : seen) {
            sum.points += 1;
            sum.hash += point_hash(v.bits, seed, key.env, key.step);
            sum.when += when_weight(key.step) * when_hash(seed, v.time_ns, v.rl_step.given, v.rl_step.value);
        }
    }
    return out;
}

Uuid uuid(std::uint8_t n) {
    Uuid u;
    u.bytes.fill(n);
    return u;
}

RingInfo scalar_info(std::uint8_t ring, std::uint8_t producer) {
    RingInfo info;
    info.ring = uuid(ring);
    info.producer = uuid(producer);
    info.kind = ring::RingKind::scalar;
    info.run = "run-1";
    info.project = "ant";
    info.name = "first";
    info.role = "0";
    info.host = "gpu-1";
    info.labels = "{}";
    info.pid = 42;
    info.opened_ns = 1'700'000'000'000'000'000;
    return info;
}

RingInfo block_info(std::vector<parcel::Metric> metrics, std::uint32_t env_first, std::uint32_t env_count,
                    std::uint8_t ring, std::uint8_t producer) {
    RingInfo info = scalar_info(ring, producer);
    info.kind = ring::RingKind::block;
    info.block = {7, env_first, env_count, std::move(metrics)};
    return info;
}

Feed::Feed(Intake& intake, const RingInfo& info) : intake_(intake) {
    const auto attached = intake.attach(info, 1);
    REQUIRE(attached);
    handle_ = attached->handle;
    resume_ = attached->resume;
    header.time_ns = 1'700'000'000'000'000'500;
    if (!resume_) return;
    position = resume_->position;
    header.number = resume_->record_number;
    header.points_total = resume_->points_total;
    header.attempt = resume_->attempt;
}

Status Feed::give(ring::RecordKind kind, ByteView body, std::uint64_t points) {
    header.kind = kind;
    header.bytes = static_cast<std::uint32_t>((sizeof header + body.size() + 7) / 8 * 8);
    header.number += 1;
    header.points_total += points;
    position += header.bytes;
    return intake_.record(handle_, header, body, position);
}

std::uint32_t metrics_of(const Block& block, const FrameSpec& spec) {
    return spec.metrics != 0 ? spec.metrics : static_cast<std::uint32_t>(block.metrics.size()) - spec.metric_first;
}
std::uint32_t values_of(const Block& block, const FrameSpec& spec) {
    return spec.rows_listed ? static_cast<std::uint32_t>(spec.rows.size()) : block.env_count;
}

Bytes frame_body(const Block& block, const FrameSpec& spec, const BitsOf& bits) {
    Bytes out;
    ByteWriter w(out);
    const std::uint32_t metrics = metrics_of(block, spec);
    w.put(ring::FrameBody{block.block, spec.metric_first, metrics, spec.steps, spec.step_first, spec.stride,
                          static_cast<std::uint32_t>(spec.rows.size()), static_cast<std::uint32_t>(spec.rows_listed)});
    for (const std::uint32_t row : spec.rows) w.put(row);
    w.align(8);
    const std::uint32_t n = values_of(block, spec);
    for (std::uint32_t t = 0; t < spec.steps; ++t)
        for (std::uint32_t m = 0; m < metrics; ++m) {
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint64_t v = bits(spec.metric_first + m, i, t);
                w.bytes({reinterpret_cast<const std::uint8_t*>(&v), dtype_width(block.metrics[spec.metric_first + m].dtype)});
            }
            w.align(8);
        }
    return out;
}

std::uint64_t frame_points(const Block& block, const FrameSpec& spec) {
    return std::uint64_t{values_of(block, spec)} * metrics_of(block, spec) * spec.steps;
}

void model_frame(Points& points, const RingInfo& info, const FrameSpec& spec, const BitsOf& bits,
                 const ring::RecordHeader& header) {
    const bool given = (header.flags & ring::flag_has_rl_step) != 0;
    for (std::uint32_t t = 0; t < spec.steps; ++t)
        for (std::uint32_t m = 0; m < metrics_of(info.block, spec); ++m)
            for (std::uint32_t i = 0; i < values_of(info.block, spec); ++i) {
                const parcel::Metric& metric = info.block.metrics[spec.metric_first + m];
                const std::uint32_t env = info.block.env_first + (spec.rows_listed ? spec.rows[i] : i);
                points[{{info.producer, header.attempt, metric.dtype, metric.name}, env, spec.step_first + spec.stride * t}]
                    .push_back({bits(spec.metric_first + m, i, t), header.time_ns, {given, given ? header.rl_step : 0}});
            }
}

Bytes scalar_body(std::int64_t step, const std::vector<std::pair<std::uint32_t, std::uint64_t>>& values) {
    Bytes out;
    ByteWriter w(out);
    w.put(ring::ScalarBody{step, static_cast<std::uint32_t>(values.size()), 0});
    for (const auto& [series, bits] : values) w.put(ring::ScalarValue{series, 0, bits});
    return out;
}

Bytes episode_body(std::int64_t step, std::int64_t stride, const std::vector<parcel::EpisodeHeader>& episodes) {
    Bytes out;
    ByteWriter w(out);
    w.put(ring::EpisodeBody{step, stride, static_cast<std::uint32_t>(episodes.size()), 0});
    for (const auto& e : episodes) w.put(e.env);
    w.align(8);
    for (const auto& e : episodes) w.put(e.episode);
    for (const auto& e : episodes) w.put(e.length);
    for (const auto& e : episodes) w.put(e.ret);
    return out;
}

Bytes event_body(std::string_view kind, std::string_view key, std::string_view text) {
    Bytes out;
    ByteWriter w(out);
    w.put(ring::EventBody{static_cast<std::uint16_t>(kind.size()), static_cast<std::uint16_t>(key.size()),
                          static_cast<std::uint32_t>(text.size())});
    for (const std::string_view s : {kind, key, text}) w.bytes(as_bytes(s));
    w.align(8);
    return out;
}

std::uint64_t some_bits(Dtype dtype, std::mt19937_64& rng) {
    const std::uint32_t width = dtype_width(dtype);
    const std::uint64_t mask = width == 8 ? ~0ULL : (1ULL << (8 * width)) - 1;
    if (dtype == Dtype::boolean) return rng() & 1;
    const std::uint64_t top = 1ULL << (8 * width - 1);
    switch (rng() % 6) {
        case 0: return rng() & mask;
        case 1: return top;                        // -0.0, smallest integer
        case 2: return (rng() % 16) & mask;        // subnormals, small integers
        case 3: return (mask ^ (rng() % 4)) & mask;  // NaNs with payloads, -1
        case 4: return (top - 1 - rng() % 1000) & mask;
        default: return (0x3FC0000000000000ULL >> (64 - 8 * width)) & mask;
    }
}

}  // namespace tally::intake::kit
