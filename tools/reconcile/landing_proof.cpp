// SPDX-License-Identifier: Apache-2.0
#include "tools/reconcile/landing_proof.hpp"

#include <map>
#include <set>

#include "agent/base/clock.hpp"
#include "agent/base/hash.hpp"
#include "agent/parcel/parcel.hpp"
#include "agent/parcel/row_hash.hpp"
#include "config/files.hpp"
#include "spool/scan.hpp"
#include "tools/reconcile/row_proof.hpp"

namespace tally::reconcile {

namespace {

constexpr std::size_t findings_max = 10;

struct Sum {
    std::uint64_t points = 0;
    std::uint64_t hash = 0;
    std::uint64_t when = 0;
};
struct Key {
    Uuid producer;
    std::uint32_t attempt = 0;
    Dtype dtype{};
    std::string metric;
    auto operator<=>(const Key&) const = default;
};
struct Totals {
    std::map<Uuid, parcel::RingTotals> rings;
    bool closed = false;
    std::uint64_t number = 0;
    std::uint32_t declared = 0;
    LiveTotals live;  // rows seen and their hashes
};

class LandingProof {
public:
    explicit LandingProof(std::string run) { r_.run = std::move(run); }

    Report prove(const std::string& dir) {
        const std::int64_t began = monotonic_ns();
        const auto summary = spool::scan(dir, [this](const spool::ScannedRecord& record) {
            if (record.committed && record.payload) take(*record.payload);
            return true;
        });
        if (!summary) {
            r_.verdict = "pending";
            r_.why = "the landing cannot be read: " + summary.error().text();
            return r_;
        }
        compare();
        r_.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
        return r_;
    }

private:
    void take(ByteView bytes) {
        const auto view = parcel::ParcelView::open(bytes);
        if (!view) return;
        const parcel::Identity& id = view->identity();
        // The same parcel twice in a landing would be a fault of dedup; it is counted once and shown.
        if (!seen_.insert({id.spool, id.id}).second) {
            ++r_.physical_duplicates;
            return;
        }
        newest_ns_ = std::max(newest_ns_, view->header().created_ns);
        for (std::size_t i = 0; i < view->sections().size(); ++i) {
            Bytes scratch;
            const auto body = view->body(i, scratch);
            if (body) take_section(static_cast<parcel::SectionKind>(view->sections()[i].kind), *body);
        }
    }

    void take_section(parcel::SectionKind kind, ByteView body) {
        switch (kind) {
            case parcel::SectionKind::frames: return frames(body);
            case parcel::SectionKind::scalars: return scalars(body);
            case parcel::SectionKind::ledger: return ledger(body);
            case parcel::SectionKind::producers: return producers(body);
            case parcel::SectionKind::episodes:
                if (auto s = parcel::read_episodes(body)) rows(s->origin, s->episodes, &LiveTotals::episodes, parcel::row_seed(s->origin, "episodes"));
                return;
            case parcel::SectionKind::events:
                if (auto s = parcel::read_events(body)) rows(s->origin, s->events, &LiveTotals::events, parcel::row_seed(s->origin, "events"));
                return;
            case parcel::SectionKind::stats:
                if (auto s = parcel::read_stats(body)) stats(*s);
                return;
            case parcel::SectionKind::gaps:
                if (auto s = parcel::read_gaps(body); s && s->origin.run == r_.run) {
                    r_.gap_rows += s->gaps.size();
                    for (const parcel::Gap& g : s->gaps)
                        if (g.reason != "ring_full" && g.reason != "record_too_big" && g.reason != "registry_full") r_.points_declared_lost += g.points;
                }
                return;
            default: return;
        }
    }

    template <class Row>
    void rows(const parcel::Origin& origin, const std::vector<Row>& all, RowTotals LiveTotals::*layer, std::uint64_t seed) {
        if (origin.run != r_.run) return;
        RowTotals& sum = totals_[origin.producer].live.*layer;
        sum.rows += all.size();
        for (const Row& row : all) sum.hash += parcel::row_hash(seed, row);
    }

    void stats(const parcel::StatsSection& s) {
        if (s.origin.run != r_.run) return;
        std::vector<std::uint64_t> seeds;
        for (const parcel::Metric& m : s.metrics) seeds.push_back(series_seed(r_.run, s.origin.producer, s.origin.attempt, m.dtype, m.name));
        RowTotals& sum = totals_[s.origin.producer].live.stats;
        sum.rows += s.stats.size();
        for (const parcel::StepStats& row : s.stats) sum.hash += parcel::row_hash(seeds[row.metric], row);
    }

    void frames(ByteView body) {
        const auto s = parcel::read_frames(body);
        if (!s || s->origin.run != r_.run) return;
        Bytes planes;
        for (const parcel::Tile& tile : s->tiles) {
            const parcel::Metric& m = s->metrics[tile.header.metric];
            planes.clear();
            if (!parcel::decode_tile(tile, m.dtype, planes)) continue;
            Sum& sum = stored_[{s->origin.producer, s->origin.attempt, m.dtype, m.name}];
            const std::uint64_t seed = series_seed(r_.run, s->origin.producer, s->origin.attempt, m.dtype, m.name);
            const parcel::Frame& f = s->frames[tile.header.frame];
            const std::size_t n = std::size_t{tile.header.items} * tile.header.steps;
            const unsigned width = dtype_width(m.dtype);
            for (std::size_t i = 0; i < n; ++i) {
                std::uint64_t bits = 0;
                for (unsigned b = 0; b < width; ++b) bits |= std::uint64_t{planes[b * n + i]} << (8 * b);
                const auto item = tile.header.item_first + static_cast<std::uint32_t>(i / tile.header.steps);
                const std::uint32_t env = s->env_first + (f.rows_listed ? f.rows[item] : item);
                const std::int64_t step = f.step_first + static_cast<std::int64_t>(tile.header.step_offset + i % tile.header.steps) * f.step_stride;
                sum.hash += point_hash(bits, seed, env, step);
            }
            sum.points += n;
            const std::int64_t first = f.step_first + static_cast<std::int64_t>(tile.header.step_offset) * f.step_stride;
            sum.when += tile.header.items * when_weights(first, f.step_stride, tile.header.steps) *
                        when_hash(seed, f.time_ns, f.rl_step.given, f.rl_step.value);
        }
    }

    void scalars(ByteView body) {
        const auto s = parcel::read_scalars(body);
        if (!s || s->origin.run != r_.run) return;
        for (const parcel::ScalarSeries& series : s->series) {
            Sum& sum = stored_[{s->origin.producer, s->origin.attempt, series.metric.dtype, series.metric.name}];
            const std::uint64_t seed = series_seed(r_.run, s->origin.producer, s->origin.attempt, series.metric.dtype, series.metric.name);
            for (std::size_t i = 0; i < series.bits.size(); ++i) {
                const parcel::MaybeStep& rl = series.rl_steps[i];
                sum.hash += point_hash(series.bits[i], seed, 0, series.steps[i]);
                sum.when += when_weight(series.steps[i]) * when_hash(seed, series.times_ns[i], rl.given, rl.value);
            }
            sum.points += series.bits.size();
        }
    }

    void ledger(ByteView body) {
        const auto s = parcel::read_ledger(body);
        if (!s || s->origin.run != r_.run) return;
        for (const parcel::LedgerEntry& e : s->entries) {
            const parcel::Metric& m = s->metrics[e.metric];
            Sum& sum = logged_[{s->origin.producer, s->origin.attempt, m.dtype, m.name}];
            sum.points += e.points;
            sum.hash += e.hash;
            sum.when += e.when;
            ++r_.tiles.count;
            series_.insert({m.name, e.env_first, e.env_count});
        }
    }

    void producers(ByteView body) {
        const auto s = parcel::read_producers(body);
        if (!s || s->origin.run != r_.run) return;
        for (const parcel::ProducerRecord& record : s->records) {
            Totals& t = totals_[s->origin.producer];
            t.declared = std::max(t.declared, record.producers_declared);
            if (record.number >= t.number) {
                t.number = record.number;
                if (record.what == parcel::ProducerWhat::closed) t.closed = true;
                if (record.what == parcel::ProducerWhat::opened || record.what == parcel::ProducerWhat::reopened) t.closed = false;
            }
            for (const parcel::RingTotals& ring : record.totals) {
                parcel::RingTotals& known = t.rings[ring.ring];
                if (ring.records >= known.records) known = ring;
            }
        }
    }

    void compare() {
        std::uint64_t dropped = 0;
        std::uint64_t published = 0;
        std::uint32_t declared = 0;
        for (const auto& [producer, t] : totals_) {
            r_.open_producers += t.closed ? 0 : 1;
            declared = std::max(declared, t.declared);
            LiveTotals want;
            for (const auto& [uuid, ring] : t.rings) {
                published += ring.points;
                dropped += ring.dropped_points;
                add(want.episodes, ring.episodes, ring.episodes_hash);
                add(want.events, ring.events, ring.events_hash);
                add(want.stats, ring.stats, ring.stats_hash);
            }
            live(t, want, "headers", &LiveTotals::episodes, r_.headers);
            live(t, want, "stats", &LiveTotals::stats, r_.stats);
            live(t, want, "events", &LiveTotals::events, r_.events);
        }
        r_.producers = totals_.size();
        r_.missing_producers = declared > totals_.size() ? declared - totals_.size() : 0;
        std::uint64_t counted = 0;
        for (const auto& [key, sum] : logged_) counted += sum.points;
        r_.points_logged = std::max(published, counted) + dropped;
        r_.points_declared_lost += dropped;
        for (const auto& [key, sum] : stored_) r_.points_stored += sum.points;
        r_.checked = r_.points_stored;
        for (const auto& [name, first, count] : series_) r_.series.count += count;
        r_.transport.count = seen_.size();
        transport();
        // Live and bulk parcels arrive in any order: until all of both are here, sums may differ for no other reason.
        const bool settled = r_.producers != 0 && r_.open_producers == 0 && r_.missing_producers == 0 && r_.transport.mismatched == 0 &&
                             counted >= published && r_.points_stored >= published;
        std::set<Key> keys;
        for (const auto& [key, sum] : logged_) keys.insert(key);
        for (const auto& [key, sum] : stored_) keys.insert(key);
        for (const Key& key : keys) {
            const Sum a = logged_[key];
            const Sum b = stored_[key];
            if (a.points == b.points && a.hash == b.hash && a.when == b.when) continue;
            if (!settled) {
                ++r_.unsettled;
                continue;
            }
            if (b.points < a.points) {
                ++r_.series.mismatched;
            } else {
                ++r_.mismatched;
                ++r_.tiles.mismatched;
            }
            if (r_.first.size() < findings_max)
                r_.first.push_back({b.points < a.points ? "series" : a.hash == b.hash ? "times" : "values", key.metric, -1, 0, std::to_string(a.points) + " points, H " + std::to_string(a.hash),
                                    std::to_string(b.points) + " points, H " + std::to_string(b.hash)});
        }
        judge(r_, newest_ns_ != 0 && wall_ns() - newest_ns_ > 120'000'000'000);
    }

    static void add(RowTotals& to, std::uint64_t rows, std::uint64_t hash) {
        to.rows += rows;
        to.hash += hash;
    }

    // Rows of the live lane of a closed producer, by value as soon as all are here.
    void live(const Totals& t, const LiveTotals& totals, const char* layer, RowTotals LiveTotals::*which, Pair& pair) {
        const RowTotals& want = totals.*which;
        const RowTotals& there = t.live.*which;
        pair.logged += want.rows;
        pair.stored += there.rows;
        if (!t.closed || want.rows != there.rows || want.hash == there.hash) return;
        ++r_.mismatched;
        r_.add({layer, "", -1, 0, "hash " + std::to_string(want.hash), "hash " + std::to_string(there.hash)});
    }

    void transport() {
        std::map<std::tuple<Uuid, StartId, Lane>, std::pair<std::uint64_t, std::uint64_t>> lanes;
        for (const auto& [spool, id] : seen_) {
            auto& [count, top] = lanes[{spool, id.start, id.lane}];
            ++count;
            top = std::max(top, raw(id.seq));
        }
        for (const auto& [key, v] : lanes) r_.transport.mismatched += v.second - v.first;
    }

    Report r_;
    std::set<std::pair<Uuid, ParcelId>> seen_;
    std::map<Key, Sum> logged_;
    std::map<Key, Sum> stored_;
    std::set<std::tuple<std::string, std::uint32_t, std::uint32_t>> series_;
    std::map<Uuid, Totals> totals_;
    std::int64_t newest_ns_ = 0;
};

}  // namespace

Report prove_landing(const std::string& landing_dir, const std::string& run) { return LandingProof(run).prove(landing_dir); }

}  // namespace tally::reconcile

namespace tally::tools {

std::expected<std::string, std::string> landing_of(const std::string& config_file) {
    if (config_file.empty()) return std::unexpected("--at received needs --config receiver.toml or --landing DIR");
    config::ReceiverConfig config;
    const auto problems = config::load_receiver(config_file, config);
    if (!problems.empty()) return std::unexpected(problems.front().line_text());
    return config.landing.dir;
}

}  // namespace tally::tools
