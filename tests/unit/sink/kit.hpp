// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Synthetic parcels with everything a run has, and a model of their points; a temporary folder.
// Flow    tests of sink and reconcile.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "agent/base/hash.hpp"
#include "agent/parcel/parcel.hpp"
#include "agent/parcel/row_hash.hpp"
#include "agent/parcel/tile_codec.hpp"
#include "spool/spool.hpp"
#include "transport/sink/chdb.hpp"

namespace tally::kit {

struct TempDir {
    std::string path;
    TempDir() {
        char name[] = "/tmp/tally-sink-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

// For stores that stay open until the process ends: the engine must not be torn down before its own threads are.
inline void remove_at_exit(const std::string& path) {
    static std::string dir;
    dir = path;
    const auto remove = [] {
        std::error_code ignored;
        std::filesystem::remove_all(dir, ignored);
    };
    std::atexit(remove);
    std::at_quick_exit(remove);
}

inline bool have_chdb() {
    if (!sink::find_chdb().empty()) return true;
    std::printf("SKIP: libchdb not found\n");
    return false;
}

struct Point {
    std::string metric;
    Dtype dtype = Dtype::f32;
    std::uint32_t env = 0;
    std::int64_t step = 0;
    std::string rl;  // "\\N" when not given, as TabSeparated prints it
    std::int64_t time_ns = 0;
    std::uint64_t bits = 0;
};

// One producer of one run. frames() and scalars() remember their points and ledger entries; live() ships the ledger.
class Producer {
public:
    explicit Producer(std::string run, std::uint64_t seed = 1) : random_(seed) {
        origin.run = std::move(run);
        origin.project = "kit";
        origin.producer.bytes.fill(static_cast<std::uint8_t>(seed));
        origin.run_created_ns = 1'790'000'000'000'000'000;
        spool.bytes.fill(0x77);
    }

    parcel::Origin origin;
    Uuid spool;
    StartId start{42};
    std::vector<Point> points;
    std::vector<parcel::Metric> metrics;
    std::vector<parcel::LedgerEntry> ledger;
    std::uint64_t next_seq[lane_count] = {1, 1, 1};
    std::uint64_t group = 1;

    Bytes seal(parcel::ParcelBuilder& builder, Lane lane, std::uint64_t count) {
        Bytes out = builder.finish(lane, count, origin.run_created_ns + 5);
        parcel::stamp(out, {spool, {start, lane, Seq{next_seq[static_cast<std::size_t>(lane)]++}}, GroupNo{group++}});
        return out;
    }

    // Tiles of all metrics over frames; random bits of every kind.
    Bytes frames(const std::vector<parcel::Metric>& of, std::uint32_t env_first, std::uint32_t envs,
                 const std::vector<parcel::Frame>& list) {
        parcel::FrameSection section;
        section.origin = origin;
        section.block = 1;
        section.env_first = env_first;
        section.env_count = envs;
        section.metrics = of;
        section.frames = list;
        Bytes body;
        parcel::write_frames_head(section, body);
        parcel::TileEncoder encoder;
        std::uint64_t count = 0;
        for (std::uint32_t f = 0; f < list.size(); ++f)
            for (std::uint16_t m = 0; m < of.size(); ++m) count += tiles(section, f, m, encoder, body);
        parcel::finish_frames(0, body);
        parcel::ParcelBuilder builder;
        builder.add(parcel::SectionKind::frames, body, false);
        return seal(builder, Lane::bulk, count);
    }

    Bytes scalars(const std::vector<parcel::ScalarSeries>& series) {
        parcel::ScalarSection section{origin, series};
        std::uint64_t count = 0;
        for (const parcel::ScalarSeries& s : series) {
            for (std::size_t i = 0; i < s.bits.size(); ++i)
                remember(s.metric, 0, s.steps[i], s.rl_steps[i], s.times_ns[i], s.bits[i]);
            count += s.bits.size();
            const auto [low, high] = std::minmax_element(s.steps.begin(), s.steps.end());
            add_entry(s.metric, 0, 1, *low, *high, points.size() - s.bits.size(), {});
        }
        Bytes body;
        parcel::write_scalars(section, body);
        parcel::ParcelBuilder builder;
        builder.add(parcel::SectionKind::scalars, body, true);
        return seal(builder, Lane::bulk, count);
    }

    parcel::ProducerRecord record(parcel::ProducerWhat what) const {
        parcel::ProducerRecord r;
        r.what = what;
        r.time_ns = origin.run_created_ns + (what == parcel::ProducerWhat::opened ? 1 : 9'000);
        r.number = static_cast<std::uint64_t>(r.time_ns);
        r.pid = 7;
        r.producers_declared = 1;
        r.role = "0";
        r.host = "box";
        r.labels = "{}";
        if (what == parcel::ProducerWhat::closed) {
            r.end = parcel::ProducerEnd::finished;
            parcel::RingTotals totals;
            totals.ring = origin.producer;
            totals.points = points.size();
            totals.episodes = episodes_;
            totals.events = events_;
            totals.stats = stats_;
            totals.episodes_hash = episodes_hash_;
            totals.events_hash = events_hash_;
            totals.stats_hash = stats_hash_;
            r.totals = {totals};
        }
        return r;
    }

    // Rows of statistics of one metric, with and without a histogram.
    Bytes stats(const parcel::Metric& metric) {
        const parcel::StatsSection section{origin, {metric},
                                           {{0, 100, 5, 7, 99, 5, 1, -1.5, 4.5, 10, 30, {0x3f80, 0x3fc0, 0xbfc0}, {1, 2, 1}},
                                            {0, 100, 1, 8, 99, 1, 1, 0, 0, 0, 0, {}, {}}}};
        stats_ += section.stats.size();
        const std::uint64_t seed = series_seed(origin.run, origin.producer, origin.attempt, metric.dtype, metric.name);
        for (const auto& row : section.stats) stats_hash_ += parcel::row_hash(seed, row);
        Bytes body;
        parcel::write_stats(section, body);
        parcel::ParcelBuilder builder;
        builder.add(parcel::SectionKind::stats, body, false);
        return seal(builder, Lane::live, 0);
    }

    // Ledger so far, two episode headers, an event, and the producer's records.
    Bytes live(std::vector<parcel::ProducerWhat> whats, bool extras = true) {
        parcel::ParcelBuilder builder;
        const auto add = [&](parcel::SectionKind kind, auto write) {
            Bytes body;
            write(body);
            builder.add(kind, body, false);
        };
        if (!ledger.empty()) {
            const parcel::LedgerSection section{origin, metrics, std::exchange(ledger, {})};
            add(parcel::SectionKind::ledger, [&](Bytes& b) { parcel::write_ledger(section, b); });
        }
        if (extras) {
            episodes_ += 2;
            events_ += 1;
            const parcel::EpisodeSection episodes{origin, {{3, 1, 0, 63, 64, 12.5, 64}, {4, -1, 5, 5, 0, -0.0, 0}}};
            const parcel::EventSection events{origin, {{origin.run_created_ns + 4, "config", "", "{\"lr\": 1}"}}};
            for (const auto& e : episodes.episodes) episodes_hash_ += parcel::row_hash(parcel::row_seed(origin, "episodes"), e);
            for (const auto& e : events.events) events_hash_ += parcel::row_hash(parcel::row_seed(origin, "events"), e);
            add(parcel::SectionKind::episodes, [&](Bytes& b) { parcel::write_episodes(episodes, b); });
            add(parcel::SectionKind::events, [&](Bytes& b) { parcel::write_events(events, b); });
        }
        parcel::ProducerSection producers{origin, {}};
        for (const parcel::ProducerWhat what : whats) producers.records.push_back(record(what));
        if (!whats.empty()) add(parcel::SectionKind::producers, [&](Bytes& b) { parcel::write_producers(producers, b); });
        return seal(builder, Lane::live, 0);
    }

private:
    std::uint64_t random_bits(Dtype dtype) {
        const std::uint32_t width = dtype_width(dtype);
        if (dtype == Dtype::boolean) return random_() & 1;
        const std::uint64_t bits = random_();
        return width == 8 ? bits : bits & ((1ULL << (8 * width)) - 1);
    }

    void remember(const parcel::Metric& metric, std::uint32_t env, std::int64_t step, const parcel::MaybeStep& rl, std::int64_t time,
                  std::uint64_t bits) {
        points.push_back({metric.name, metric.dtype, env, step, rl.given ? std::to_string(rl.value) : "\\N", time, bits});
    }

    void add_entry(const parcel::Metric& metric, std::uint32_t env_first, std::uint32_t env_count, std::int64_t low, std::int64_t high,
                   std::size_t from, std::map<std::uint32_t, std::uint32_t> per_env) {
        auto it = std::find(metrics.begin(), metrics.end(), metric);
        if (it == metrics.end()) it = metrics.insert(metrics.end(), metric);
        parcel::LedgerEntry e;
        e.metric = static_cast<std::uint32_t>(it - metrics.begin());
        e.env_first = env_first;
        e.env_count = env_count;
        e.step_first = low;
        e.step_last = high;
        e.points = points.size() - from;
        const std::uint64_t seed = series_seed(origin.run, origin.producer, origin.attempt, metric.dtype, metric.name);
        for (std::size_t i = from; i < points.size(); ++i) {
            const Point& p = points[i];
            const bool given = p.rl != "\\N";
            e.hash += point_hash(p.bits, seed, p.env, p.step);
            e.when += when_weight(p.step) * when_hash(seed, p.time_ns, given, given ? std::stoll(p.rl) : 0);
        }
        for (const auto& [env, count] : per_env) e.env_points.push_back({env, count});
        ledger.push_back(std::move(e));
    }

    std::uint64_t tiles(const parcel::FrameSection& s, std::uint32_t f, std::uint16_t m, parcel::TileEncoder& encoder, Bytes& body) {
        const parcel::Frame& frame = s.frames[f];
        const parcel::Metric& metric = s.metrics[m];
        const std::uint32_t width = dtype_width(metric.dtype);
        const auto items_all = frame.rows_listed ? static_cast<std::uint32_t>(frame.rows.size()) : s.env_count;
        for (std::uint32_t item = 0; item < items_all;) {
            std::uint32_t items = std::min(items_all - item, parcel::tile_envs_max);
            const std::uint32_t range = frame.rows_listed ? frame.rows[item] / 4096 : 0;
            while (frame.rows_listed && frame.rows[item + items - 1] / 4096 != range) --items;
            for (std::uint32_t offset = 0; offset < frame.steps; offset += parcel::tile_steps_max) {
                const std::uint32_t steps = std::min(frame.steps - offset, parcel::tile_steps_max);
                const std::size_t from = points.size();
                std::map<std::uint32_t, std::uint32_t> per_env;
                Bytes values;
                for (std::uint32_t i = 0; i < items; ++i) {
                    const std::uint32_t env = s.env_first + (frame.rows_listed ? frame.rows[item + i] : item + i);
                    if (frame.rows_listed) per_env[env] += steps;
                    for (std::uint32_t t = 0; t < steps; ++t) {
                        const std::uint64_t bits = random_bits(metric.dtype);
                        const auto* b = reinterpret_cast<const std::uint8_t*>(&bits);
                        values.insert(values.end(), b, b + width);
                        remember(metric, env, frame.step_first + frame.step_stride * (offset + t), frame.rl_step, frame.time_ns, bits);
                    }
                }
                encoder.append_values({f, m, 0, 0, item, items, offset, steps, 0, 0}, metric.dtype, values, body);
                const std::uint32_t tile_first = frame.rows_listed ? range * 4096 : item;
                const std::uint32_t tile_count = frame.rows_listed ? std::min(4096U, s.env_count - tile_first) : items;
                add_entry(metric, s.env_first + tile_first, tile_count, frame.step_first + frame.step_stride * offset,
                          frame.step_first + frame.step_stride * (offset + steps - 1), from, std::move(per_env));
            }
            item += items;
        }
        return std::uint64_t{items_all} * frame.steps;
    }

    std::mt19937_64 random_;
    std::uint64_t episodes_ = 0;
    std::uint64_t events_ = 0;
    std::uint64_t stats_ = 0;
    std::uint64_t episodes_hash_ = 0;
    std::uint64_t events_hash_ = 0;
    std::uint64_t stats_hash_ = 0;
};

inline parcel::Frame dense(std::int64_t step, std::uint32_t steps = 1, std::int64_t stride = 1, bool rl = true) {
    parcel::Frame f;
    f.step_first = step;
    f.steps = steps;
    f.step_stride = stride;
    f.rl_step = {rl, rl ? step / 10 : 0};
    f.time_ns = 1'790'000'000'000'001'000 + step;
    return f;
}

// Every dtype, dense frames of 1, 3, 64 and 100 steps, row lists with repeats over two ranges, irregular scalars.
inline std::vector<Bytes> everything(Producer& p) {
    std::vector<parcel::Metric> all;
    for (std::uint8_t code = 1; code <= 13; ++code)
        all.push_back({Dtype{code}, std::string("m_") + dtype_name(Dtype{code})});
    std::vector<Bytes> out;
    out.push_back(p.frames(all, 100, 130, {dense(7), dense(8, 3, 2, false), dense(20, 64), dense(100, 100)}));
    parcel::Frame rows = dense(-5, 2);
    rows.rows_listed = true;
    rows.rows = {0, 2, 2, 4, 90, 4000, 4095, 4096, 4100, 4999};
    out.push_back(p.frames({{Dtype::f32, "listed"}, {Dtype::u8, "listed8"}}, 10, 5000, {rows}));
    parcel::ScalarSeries loss{{Dtype::f64, "loss"}, {}, {}, {}, {}};
    for (std::int64_t i = 0; i < 150; ++i) {
        loss.steps.push_back(i < 70 ? i : i * i - 40);
        loss.times_ns.push_back(1'790'000'000'000'000'000 + i * 1000);
        loss.rl_steps.push_back({i % 100 < 90, i % 100 < 90 ? i / 7 : 0});
        loss.bits.push_back(static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL);
    }
    out.push_back(p.scalars({loss, {{Dtype::boolean, "done"}, {INT64_MIN}, {30}, {{}}, {1}}}));
    return out;
}

inline std::string sorted_lines(std::string text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    std::sort(lines.begin(), lines.end());
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
}

}  // namespace tally::kit
