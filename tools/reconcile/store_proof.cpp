// SPDX-License-Identifier: Apache-2.0
#include "tools/reconcile/store_proof.hpp"

#include <charconv>
#include <sstream>

#include "agent/base/clock.hpp"
#include "agent/base/hash.hpp"

namespace tally::reconcile {

namespace {

constexpr std::size_t findings_max = 10;
constexpr std::size_t tiles_descended_max = 16;
constexpr std::int64_t settled_after_ns = 120'000'000'000;  // nothing stored for so long: nothing is on its way

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

struct Failed {
    std::string why;
};

std::uint64_t u64(const std::string& s) {
    std::uint64_t v = 0;
    std::from_chars(s.data(), s.data() + s.size(), v);
    return v;
}
std::int64_t i64(const std::string& s) {
    std::int64_t v = 0;
    std::from_chars(s.data(), s.data() + s.size(), v);
    return v;
}

std::string unescape(const std::string& s) {
    std::string out;
    for (std::size_t i = 0; i < s.size(); ++i) {
        if (s[i] != '\\' || i + 1 == s.size()) {
            out += s[i];
            continue;
        }
        const char c = s[++i];
        out += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'b' ? '\b' : c == 'f' ? '\f' : c == '0' ? '\0' : c;
    }
    return out;
}

// One hash per value of a row, in SQL; `w` is the width of the table.
std::string hashes_sql(unsigned w) {
    std::string planes;
    std::string names;
    std::string bits = "toUInt64(b0)";
    for (unsigned p = 0; p < w; ++p) {
        planes += "v.p" + std::to_string(p) + ", ";
        names += "b" + std::to_string(p) + ", ";
        if (p > 0) bits += " + bitShiftLeft(toUInt64(b" + std::to_string(p) + "), " + std::to_string(8 * p) + ")";
    }
    return "arraySum(arrayMap((" + names +
           "i) -> intHash64(" + bits + " + seed + toUInt64(env_first + if(empty(idx), intDiv(i - 1, steps), idx[1 + intDiv(i - 1, steps)])) * "
           "15485907288798091667 + toUInt64(if(empty(step_list), step_first + ((i - 1) % steps) * step_stride, step_list[i])) * "
           "11400714819323198485), " + planes + "arrayEnumerate(v.p0)))";
}

struct Group {
    std::string producer, attempt, dtype, metric;
    std::uint64_t points = 0, hash = 0, stored_points = 0, stored_hash = 0;
    std::uint64_t env_base = 0;  // lowest env_first of its ledger: tiles are 4,096 wide from there
};

class Proof {
public:
    Proof(const tools::QueryFn& query, const std::string& run) : query_(query), params_{{"run", run}} { r_.run = run; }

    Report prove() {
        const std::int64_t began = monotonic_ns();
        const bool settled = producers() && transport();
        totals();
        std::vector<Group> differ = groups(false);
        if (!differ.empty()) {
            // Duplicated rows are the only innocent reason; FINAL takes them out.
            const std::uint64_t before = r_.points_stored;
            differ = groups(true);
            r_.physical_duplicates = before - r_.points_stored;
        }
        for (const Group& g : differ) descend(g);
        judge(r_, settled && newest_ns_ != 0 && wall_ns() - newest_ns_ > settled_after_ns);
        r_.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
        return r_;
    }

private:
    Rows ask(const std::string& sql, sink::Params more = {}) const {
        sink::Params all = params_;
        all.insert(all.end(), more.begin(), more.end());
        const sink::Answer answer = query_(sql, "TabSeparated", all);
        if (!answer.ok()) throw Failed{answer.error};
        Rows rows;
        std::istringstream lines(answer.rows);
        for (std::string line; std::getline(lines, line);) {
            Row row;
            std::istringstream cells(line);
            for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(unescape(cell));
            if (!line.empty() && line.back() == '\t') row.emplace_back();
            rows.push_back(std::move(row));
        }
        return rows;
    }

    bool producers() {
        const Rows rows = ask(
            "SELECT count(DISTINCT producer), countIf(NOT is_closed), max(declared) FROM "
            "(SELECT producer, any(is_closed) AS is_closed, max(declared) AS declared FROM tallyman.producer_states "
            "WHERE run = {run:String} GROUP BY producer)");
        const std::uint64_t known = u64(rows.at(0).at(0));
        r_.open_producers = u64(rows.at(0).at(1));
        const std::uint64_t declared = u64(rows.at(0).at(2));
        r_.missing_producers = declared > known ? declared - known : 0;
        return true;
    }

    // Sequences of the starts that carried this run: highest against how many are there.
    bool transport() {
        const Rows rows = ask(
            "SELECT count(), sum(top - seen), max(newest) FROM (SELECT spool, start, lane, uniqExact(seq) AS seen, max(seq) AS top, "
            "max(created_ns) AS newest FROM tallyman.parcels WHERE (spool, start) IN (SELECT spool, start FROM tallyman.parcels WHERE run = "
            "{run:String}) GROUP BY spool, start, lane)");
        const Rows parcels = ask(
            "SELECT uniqExact(spool, start, lane, seq) FROM tallyman.parcels WHERE (spool, start) IN (SELECT spool, start FROM "
            "tallyman.parcels WHERE run = {run:String})");
        r_.transport.count = u64(parcels.at(0).at(0));
        r_.transport.mismatched = u64(rows.at(0).at(1));
        newest_ns_ = i64(rows.at(0).at(2));
        return true;
    }

    void totals() {
        // The newest record of each ring counts; heartbeats of open producers too.
        const Rows rings = ask(
            "SELECT sum(p), sum(d), sum(e), sum(s) FROM (SELECT ring, argMax(points, records) AS p, argMax(dropped, records) AS d, "
            "argMax(episodes, records) AS e, argMax(stats, records) AS s FROM (SELECT rings.ring AS ring, rings.records AS records, "
            "rings.points AS points, rings.dropped_points AS dropped, rings.episodes AS episodes, rings.stats AS stats FROM "
            "tallyman.producer_rows FINAL ARRAY JOIN rings WHERE run = {run:String} AND what IN (3, 4)) GROUP BY ring)");
        const Rows ledger = ask("SELECT sum(points) FROM tallyman.ledger FINAL WHERE run = {run:String}");
        r_.points_logged = std::max(u64(rings.at(0).at(0)), u64(ledger.at(0).at(0)));
        const Rows gaps = ask("SELECT sum(points) FROM tallyman.gap_rows FINAL WHERE run = {run:String} AND reason NOT IN ('ring_full', "
                              "'record_too_big', 'registry_full')");
        const std::uint64_t dropped = u64(rings.at(0).at(1));
        r_.points_declared_lost = u64(gaps.at(0).at(0)) + dropped;
        r_.points_logged += dropped;  // published and dropped together are what the trainer logged
        r_.headers.logged = u64(rings.at(0).at(2));
        r_.stats.logged = u64(rings.at(0).at(3));
        r_.headers.stored = u64(ask("SELECT count() FROM tallyman.episodes FINAL WHERE run = {run:String}").at(0).at(0));
        r_.stats.stored = u64(ask("SELECT count() FROM tallyman.stats FINAL WHERE run = {run:String}").at(0).at(0));
    }

    std::string rows_sql(bool final, const char* select, const std::string& where, const char* group) const {
        std::string out;
        for (const unsigned w : {1U, 2U, 4U, 8U}) {
            out += w == 1 ? "" : " UNION ALL ";
            out += std::string("SELECT ") + select + ", sum(length(v.p0)) AS n, sum(h) AS hash FROM (SELECT *, xxh3(concat(run, '|', toString(producer), '|', "
                   "toString(attempt), '|', transform(dtype, [1,2,3,4,5,6,7,8,9,10,11,12,13], ['f16','bf16','f32','f64','i8','i16','i32','i64','u8','u16','u32','u64','bool'], ''), '|', metric)) AS seed, " +
                   hashes_sql(w) + " AS h FROM tallyman.points_w" + std::to_string(w) + (final ? " FINAL" : "") + " WHERE run = {run:String}" + where +
                   ") GROUP BY " + group;
        }
        return out;
    }

    // Sums per (producer, attempt, dtype, metric); those that differ are returned.
    std::vector<Group> groups(bool final) {
        std::map<std::string, Group> all;
        const auto key = [](const Row& r) { return r.at(0) + "|" + r.at(1) + "|" + r.at(2) + "|" + r.at(3); };
        for (const Row& r : ask("SELECT producer, attempt, dtype, metric, sum(points), sum(hash), min(env_first), count() FROM tallyman.ledger FINAL "
                                "WHERE run = {run:String} GROUP BY producer, attempt, dtype, metric")) {
            Group& g = all[key(r)];
            g = {r.at(0), r.at(1), r.at(2), r.at(3), u64(r.at(4)), u64(r.at(5)), 0, 0, u64(r.at(6))};
        }
        r_.points_stored = 0;
        r_.checked = 0;
        for (const Row& r : ask(rows_sql(final, "producer, attempt, dtype, metric", "", "producer, attempt, dtype, metric"))) {
            Group& g = all[key(r)];
            g.producer = r.at(0);
            g.attempt = r.at(1);
            g.dtype = r.at(2);
            g.metric = r.at(3);
            g.stored_points += u64(r.at(4));
            g.stored_hash += u64(r.at(5));
            r_.points_stored += u64(r.at(4));
        }
        r_.checked = r_.points_stored;
        const Rows shape = ask("SELECT count(), (SELECT sum(c) FROM (SELECT metric, dtype, env_first, max(env_count) AS c FROM tallyman.ledger FINAL "
                               "WHERE run = {run:String} GROUP BY metric, dtype, env_first)) FROM tallyman.ledger FINAL WHERE run = {run:String}");
        r_.tiles.count = u64(shape.at(0).at(0));
        r_.series.count = u64(shape.at(0).at(1));
        std::vector<Group> differ;
        for (auto& [k, g] : all)
            if (g.points != g.stored_points || g.hash != g.stored_hash) differ.push_back(g);
        return differ;
    }

    struct Tile {
        std::uint64_t points = 0, hash = 0, stored_points = 0, stored_hash = 0, env_count = 0;
    };

    // Tiles of one group: which differ, and in them which point.
    void descend(const Group& g) {
        const sink::Params more{{"producer", g.producer}, {"attempt", g.attempt}, {"dtype", g.dtype}, {"metric", g.metric}};
        const std::string same = " AND producer = {producer:UUID} AND attempt = {attempt:UInt32} AND dtype = {dtype:UInt8} AND metric = {metric:String}";
        std::map<std::pair<std::uint64_t, std::int64_t>, Tile> tiles;
        bool scalar = true;
        for (const Row& r : ask("SELECT env_first, step_first, points, hash, env_count FROM tallyman.ledger FINAL WHERE run = {run:String}" + same, more)) {
            Tile& t = tiles[{u64(r.at(0)), i64(r.at(1))}];
            t.points += u64(r.at(2));
            t.hash += u64(r.at(3));
            t.env_count = std::max(t.env_count, u64(r.at(4)));
            scalar = scalar && u64(r.at(4)) == 1;
        }
        if (scalar) {
            Tile whole{g.points, g.hash, g.stored_points, g.stored_hash, 1};
            return name(g, g.env_base, 0, whole, true, more, same);
        }
        const std::string base = std::to_string(g.env_base);
        const std::string tile_env = "(" + base + " + intDiv(env_first - " + base + ", 4096) * 4096)";
        for (const Row& r : ask(rows_sql(true, (tile_env + " AS tile, step_first").c_str(), same, "tile, step_first"), more)) {
            Tile& t = tiles[{u64(r.at(0)), i64(r.at(1))}];
            t.stored_points += u64(r.at(2));
            t.stored_hash += u64(r.at(3));
        }
        std::size_t descended = 0;
        for (const auto& [at, t] : tiles) {
            if (t.points == t.stored_points && t.hash == t.stored_hash) continue;
            if (t.stored_points < t.points) {  // not there (yet): a count, not a mismatch
                ++r_.series.mismatched;
                if (r_.first.size() < findings_max)
                    r_.first.push_back({"series", g.metric, static_cast<std::int64_t>(at.first), at.second, std::to_string(t.points) + " points", std::to_string(t.stored_points) + " points"});
                continue;
            }
            if (++descended > tiles_descended_max) {
                ++r_.mismatched;
                ++r_.tiles.mismatched;
                continue;
            }
            name(g, at.first, at.second, t, false, more, same);
        }
    }

    // One flipped bit, or one doubled point, explains the difference of a tile; otherwise the tile is named.
    void name(const Group& g, std::uint64_t env, std::int64_t step, const Tile& t, bool whole, const sink::Params& more, const std::string& same) {
        if (t.stored_points < t.points) {
            ++r_.series.mismatched;
            r_.first.push_back({"series", g.metric, static_cast<std::int64_t>(env), step, std::to_string(t.points) + " points", std::to_string(t.stored_points) + " points"});
            return;
        }
        ++r_.mismatched;
        ++r_.tiles.mismatched;
        if (r_.first.size() >= findings_max) return;
        const auto dtype = static_cast<Dtype>(u64(g.dtype));
        const std::uint64_t seed = series_seed(r_.run, *Uuid::parse(g.producer), static_cast<std::uint32_t>(u64(g.attempt)), dtype, g.metric);
        std::string where = "WHERE run = {run:String} AND metric = {metric:String} AND producer = {producer:UUID} AND attempt = {attempt:UInt32} AND "
                            "dtype = '" + std::string(dtype_name(dtype)) + "'";
        if (!whole)
            where += " AND env_first >= " + std::to_string(env) + " AND env_first < " + std::to_string(env + 4096) + " AND step_first = " + std::to_string(step);
        static_cast<void>(same);
        const std::uint64_t delta = t.hash - t.stored_hash;
        for (const Row& p : ask("SELECT env, step, bits FROM tallyman.points_pruned " + where + " LIMIT 10000000", more)) {
            const auto e = static_cast<std::uint32_t>(u64(p.at(0)));
            const std::int64_t s = i64(p.at(1));
            const std::uint64_t bits = u64(p.at(2));
            const std::uint64_t found = point_hash(bits, seed, e, s);
            if (t.stored_points == t.points + 1 && delta == 0 - found) {
                r_.first.push_back({"values", g.metric, e, s, "once", "twice"});
                return;
            }
            for (unsigned b = 0; b < 8 * dtype_width(dtype); ++b) {
                const std::uint64_t flipped = bits ^ (1ULL << b);
                if (point_hash(flipped, seed, e, s) - found != delta) continue;
                std::ostringstream expected;
                std::ostringstream got;
                expected << "bits 0x" << std::hex << flipped << std::dec << " (" << dtype_to_f64(dtype, flipped) << ")";
                got << "bits 0x" << std::hex << bits << std::dec << " (" << dtype_to_f64(dtype, bits) << "), bit " << b << " flipped";
                r_.first.push_back({"values", g.metric, e, s, expected.str(), got.str()});
                return;
            }
        }
        r_.first.push_back({"tiles", g.metric, static_cast<std::int64_t>(env), step, "H " + std::to_string(t.hash), "H " + std::to_string(t.stored_hash)});
    }

    const tools::QueryFn& query_;
    sink::Params params_;
    Report r_;
    std::int64_t newest_ns_ = 0;
};

}  // namespace

Report prove_store(const tools::QueryFn& query, const std::string& run) {
    try {
        return Proof(query, run).prove();
    } catch (const Failed& f) {
        Report r;
        r.run = run;
        r.verdict = "pending";
        r.why = "the store did not answer: " + f.why;
        return r;
    }
}

}  // namespace tally::reconcile
