// SPDX-License-Identifier: Apache-2.0
#include "tools/reconcile/store_proof.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "agent/base/clock.hpp"
#include "agent/base/hash.hpp"
#include "agent/base/interval_set.hpp"
#include "tools/reconcile/row_proof.hpp"
#include "tools/reconcile/sums.hpp"
#include "transport/sink/schema.hpp"

namespace tally::reconcile {

namespace {

constexpr const char* of_run = "WHERE run = {run:String}";

struct ProducerState {
    bool closed = false;
    std::uint64_t points = 0, dropped = 0;
    LiveTotals live;
};

// Dense rows of one step, and dense rows of one environment: their hashes need no division and no lists.
constexpr const char* one_step = "steps = 1 AND empty(idx) AND empty(step_list)";
constexpr const char* one_env = "steps > 1 AND length(v.p0) = steps AND empty(idx) AND empty(step_list)";

Family family_of(const std::vector<std::string>& row) {
    Family f;
    f.producer = Uuid::parse(row[0]).value_or(Uuid{});
    f.attempt = static_cast<std::uint32_t>(to_u64(row[1]));
    f.dtype = static_cast<Dtype>(to_u64(row[2]));
    f.metric = row[3];
    return f;
}

Sums logged_sums(Asker& ask) {
    Sums sums;
    for (const auto& row : ask.rows(std::string("SELECT producer, attempt, dtype, metric, sum(points), sum(hash), sum(when_hash), count() FROM tallyman.ledger FINAL ") +
                                    of_run + " GROUP BY producer, attempt, dtype, metric"))
        sums[family_of(row)] = {to_u64(row[4]), to_u64(row[5]), to_u64(row[6]), to_u64(row[7])};
    return sums;
}

RowShape shape_of(Asker& ask, unsigned width) {
    const auto rows = ask.rows(std::string("SELECT count(), countIf(") + one_step + "), countIf(" + one_env + ") FROM tallyman.points_w" +
                               std::to_string(width) + " " + of_run);
    if (rows.empty() || rows[0][0] == "0") return RowShape::any;
    return rows[0][0] == rows[0][1] ? RowShape::one_step : rows[0][0] == rows[0][2] ? RowShape::one_env : RowShape::any;
}

std::vector<std::vector<std::string>> sum_rows(Asker& ask, unsigned width, bool final, RowShape shape) {
    return ask.rows("SELECT producer, attempt, dtype, metric, sum(n), sum(h), sum(w), count() FROM (" + hashed_rows_sql(width, "1", final, shape) +
                    ") GROUP BY producer, attempt, dtype, metric");
}

Sums stored_sums(Asker& ask, bool final) {
    Sums sums;
    for (const unsigned width : sink::widths) {
        RowShape shape = shape_of(ask, width);
        std::vector<std::vector<std::string>> rows = sum_rows(ask, width, final, shape);
        // Rows of another shape may have been stored meanwhile; rows never go away, so asking again afterwards settles it.
        if (shape != RowShape::any && shape_of(ask, width) != shape) rows = sum_rows(ask, width, final, RowShape::any);
        for (const auto& row : rows) sums[family_of(row)] = {to_u64(row[4]), to_u64(row[5]), to_u64(row[6]), to_u64(row[7])};
    }
    return sums;
}

std::uint64_t duplicates(Asker& ask) {
    std::uint64_t sum = 0;
    for (const unsigned width : sink::widths)
        sum += ask.number("SELECT count() - uniqExact(metric, env_first, step_first, origin_start, origin_lane, origin_seq, origin_row) FROM "
                          "tallyman.points_w" + std::to_string(width) + " " + of_run);
    return sum;
}

std::map<std::string, ProducerState> producers(Asker& ask, Report& report) {
    std::map<std::string, ProducerState> out;
    std::uint64_t declared = 0;
    std::string totals;
    for (const char* column : {"points", "dropped_points", "episodes", "events", "stats", "episodes_hash", "events_hash", "stats_hash"})
        totals += std::string(", arraySum(argMaxIf(rings.") + column + ", number, what = 3))";
    for (const auto& row : ask.rows("SELECT producer, countIf(what = 3) != 0 AND maxIf(number, what = 3) >= maxIf(number, what IN (1, 5)), max(declared)" +
                                    totals + " FROM tallyman.producer_rows FINAL " + of_run + " GROUP BY producer")) {
        declared = std::max(declared, to_u64(row[2]));
        const auto n = [&row](std::size_t i) { return to_u64(row[i]); };
        out[row[0]] = {row[1] == "1", n(3), n(4), {{n(5), n(8)}, {n(6), n(9)}, {n(7), n(10)}}};
        if (row[1] != "1") ++report.open_producers;
    }
    report.producers = out.size();
    report.missing_producers = declared > out.size() ? declared - out.size() : 0;
    return out;
}

// Sequences that neither are there nor were declared lost, in every lane of every start that carried this run: up to the newest that
// holds something of it, and where a later start told how the life ended, up to that end in all its lanes.
void transport(Asker& ask, Report& report) {
    report.transport.count = ask.number("SELECT uniqExact(spool, start, lane, seq) FROM tallyman.parcels WHERE run = {run:String}");
    // A row one beyond the end of each lane turns what is missing at the end into a hole like any other.
    const auto holes = ask.rows(
        "WITH lives AS (SELECT DISTINCT spool, start FROM tallyman.parcels WHERE run = {run:String}), "
        "ends AS (SELECT spool, start, lane, max(top) + 1 AS beyond FROM (SELECT spool, start, lane, seq AS top FROM tallyman.parcels "
        "WHERE run = {run:String} UNION ALL SELECT spool, previous AS start, toUInt8(number - 1) AS lane, previous_seq[number] AS top FROM tallyman.starts "
        "ARRAY JOIN arrayEnumerate(previous_seq) AS number WHERE (spool, previous) IN lives) GROUP BY spool, start, lane), "
        "all_seqs AS (SELECT spool, start, lane, seq FROM tallyman.parcels WHERE (spool, start) IN lives UNION DISTINCT "
        "SELECT spool, start, lane, beyond AS seq FROM ends) "
        "SELECT start, lane, before + 1, seq - 1, spool FROM (SELECT spool, start, lane, seq, lagInFrame(seq, 1, 0) OVER (PARTITION BY spool, start, "
        "lane ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before FROM all_seqs) AS p INNER JOIN ends AS e "
        "ON p.spool = e.spool AND p.start = e.start AND p.lane = e.lane WHERE seq > before + 1 AND seq <= beyond");
    if (holes.empty()) return;
    std::map<std::pair<std::string, std::string>, IntervalSet> declared;
    for (const auto& row : ask.rows("SELECT start, lane, seq_first, seq_last FROM tallyman.gap_rows FINAL WHERE lane_known AND seq_first > 0 AND seq_last >= seq_first"))
        declared[{row[0], row[1]}].insert(to_u64(row[2]), to_u64(row[3]));
    for (const auto& row : holes) {
        for (const Interval& i : declared[{row[0], row[1]}].missing(to_u64(row[2]), to_u64(row[3]))) {
            report.transport.mismatched += i.last - i.first + 1;
            report.add({"transport", "", -1, 0, "start " + row[0] + " lane " + row[1] + " seq " + std::to_string(i.first) + ".." + std::to_string(i.last),
                        "nothing"});
        }
    }
}

// Rows of the live lane, counted against the closing totals.
void count_layer(Report& report, const char* layer, const Pair& counts, bool settled) {
    if (counts.logged == counts.stored) return;
    if (!settled) {
        ++report.unsettled;
        return;
    }
    if (counts.stored > counts.logged)
        ++report.mismatched;
    else
        report.undeclared_lost += counts.logged - counts.stored;
    report.add({layer, "", -1, 0, std::to_string(counts.logged) + " rows", std::to_string(counts.stored) + " rows"});
}

}  // namespace

std::string hashed_rows_sql(unsigned width, const std::string& where, bool final, RowShape shape) {
    std::string names, planes;
    for (unsigned p = 0; p < width; ++p) {
        names += "b" + std::to_string(p) + ", ";
        planes += "v.p" + std::to_string(p) + ", ";
    }
    const std::string env_factor = "toUInt64(" + std::to_string(hash_env_factor) + ")";
    const std::string step_factor = "toUInt64(" + std::to_string(hash_step_factor) + ")";
    const std::string seed = "xxh3(concat(toString(run), '|', toString(producer), '|', toString(attempt), '|', transform(dtype, [1,2,3,4,5,6,7,8,9,10,11,12,13], "
                             "['f16','bf16','f32','f64','i8','i16','i32','i64','u8','u16','u32','u64','bool'], ''), '|', toString(metric)))";
    const std::string base = seed + " + env_first * " + env_factor + " + toUInt64(step_first) * " + step_factor;
    // W: one hash per row, unless the values of the row have times of their own.
    const auto when = [&](const std::string& time, const std::string& rl) {
        return "intHash64(" + seed + " + toUInt64(" + time + ") * " + step_factor + " + toUInt64(ifNull(" + rl + ", 0)) * " + env_factor +
               " + if(isNull(rl_step), 0, toUInt64(" + std::to_string(hash_given) + ")))";
    };
    const std::string row_when = "intDiv(length(v.p0), steps) * (toUInt64(steps) * (2 * toUInt64(step_first) + 1) + toUInt64(step_stride) * steps * "
                                 "toUInt64(steps - 1)) * " + when("time_ns", "rl_step");
    const std::string value_when = "arraySum(i -> (2 * toUInt64(if(empty(step_list), step_first + (i - 1) * step_stride, step_list[i])) + 1) * " +
                                   when("if(empty(time_list), time_ns, time_list[i])", "if(empty(rl_list), rl_step, rl_list[i])") + ", arrayEnumerate(v.p0))";
    // The base of a row is made once per row, outside the lambda that runs per value.
    const auto branch = [&](const char* condition, const std::string& offset, const std::string& start, const std::string& w) {
        return "SELECT producer, attempt, dtype, metric, env_first, step_first, length(v.p0) AS n, arraySum((" + names + "i) -> intHash64(" +
               sink::bits_sql(width) + " + base + " + offset + "), " + planes + "arrayEnumerate(v.p0)) AS h, " + w + " AS w FROM (SELECT *, " + start +
               " AS base FROM tallyman.points_w" + std::to_string(width) + (final ? " FINAL" : "") + " WHERE run = {run:String} AND (" +
               where + ")" + condition + ")";
    };
    const std::string steps = "toUInt64((i - 1) * step_stride) * " + step_factor;
    const std::string any = "toUInt64(env_first + if(empty(idx), intDiv(i - 1, steps), idx[1 + intDiv(i - 1, steps)])) * " + env_factor +
                            " + toUInt64(if(empty(step_list), step_first + ((i - 1) % steps) * step_stride, step_list[i])) * " + step_factor;
    const std::string listed = "if(empty(step_list) AND empty(time_list) AND empty(rl_list), " + row_when + ", " + value_when + ")";
    if (shape == RowShape::one_step) return branch("", "(i - 1) * " + env_factor, base, row_when);
    if (shape == RowShape::one_env) return branch("", steps, base, listed);
    return branch((std::string(" AND ") + one_step).c_str(), "(i - 1) * " + env_factor, base, row_when) + " UNION ALL " +
           branch((std::string(" AND ") + one_env).c_str(), steps, base, listed) + " UNION ALL " +
           branch((std::string(" AND NOT (") + one_step + ") AND NOT (" + one_env + ")").c_str(), any, seed, listed);
}

Report prove_store(const tools::QueryFn& query, const std::string& run, std::uint64_t not_stored) {
    const std::int64_t began = monotonic_ns();
    Report report;
    report.run = run;
    report.not_stored = not_stored;
    Asker ask(query, run);
    const auto states = producers(ask, report);
    transport(ask, report);
    const Sums logged = logged_sums(ask);
    Sums stored = stored_sums(ask, false);

    std::set<Family> families;
    for (const auto& [f, s] : logged) families.insert(f);
    for (const auto& [f, s] : stored) families.insert(f);
    bool surplus = false;
    for (const Family& f : families) surplus = surplus || stored[f].points > (logged.contains(f) ? logged.at(f).points : 0);
    if (surplus) report.physical_duplicates = duplicates(ask);
    const bool final = report.physical_duplicates != 0;
    if (final) stored = stored_sums(ask, true);

    std::uint64_t ledger_points = 0, total_points = 0;
    for (const auto& [f, s] : logged) ledger_points += s.points;
    for (const auto& [f, s] : stored) report.points_stored += s.points;
    std::uint64_t closed_dropped = 0;
    std::map<std::string, LiveTotals> live;
    for (const auto& [id, p] : states) {
        total_points += p.points;
        closed_dropped += p.dropped;
        report.headers.logged += p.live.episodes.rows;
        report.stats.logged += p.live.stats.rows;
        report.events.logged += p.live.events.rows;
        live[id] = p.live;
    }
    report.gap_rows = ask.number(std::string("SELECT count() FROM tallyman.gap_rows FINAL ") + of_run);
    report.points_declared_lost = std::max(closed_dropped, ask.number(std::string("SELECT sum(points) FROM tallyman.gap_rows FINAL ") + of_run));
    report.points_logged = std::max(ledger_points, total_points) + closed_dropped;
    report.headers.stored = ask.number(std::string("SELECT count() FROM tallyman.episodes FINAL ") + of_run);
    report.stats.stored = ask.number(std::string("SELECT count() FROM tallyman.stats FINAL ") + of_run);
    report.events.stored = ask.number(std::string("SELECT count() FROM tallyman.event_rows FINAL ") + of_run);
    const std::uint64_t received =
        ask.number(std::string("SELECT sum(points) FROM (SELECT DISTINCT spool, start, lane, seq, points FROM tallyman.parcels ") + of_run + ")");

    // Everything that was logged has been received, by the transport's own account: a difference cannot be on its way any more.
    const bool settled = report.producers != 0 && report.open_producers == 0 && report.transport.mismatched == 0 && received >= total_points &&
                         not_stored == 0;
    count_layer(report, "headers", report.headers, settled);
    count_layer(report, "stats", report.stats, settled);
    if (report.events.stored < report.events.logged) count_layer(report, "events", report.events, settled);
    if (settled) prove_rows(ask, live, true, report);
    if (report.open_producers == 0 && ledger_points != total_points) count_layer(report, "series", {total_points, ledger_points}, settled);
    report.series.count = families.size();
    for (const Family& f : families) {
        const Sum l = logged.contains(f) ? logged.at(f) : Sum{};
        const Sum s = stored[f];
        report.tiles.count += l.entries;
        if (l.equals(s)) {
            report.checked += l.points;
            continue;
        }
        ++report.series.mismatched;
        descend(ask, {f, l, s, settled}, final, report);
    }
    if (!settled && report.mismatched == 0) report.series.mismatched = 0;  // on its way, as far as can be told
    judge(report, settled);
    if (!ask.error().empty()) {
        report.verdict = report.mismatched != 0 ? "mismatch" : "pending";
        report.why = "the store did not answer: " + ask.error();
    }
    report.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
    return report;
}

// ---- answers -------------------------------------------------------------------------------------------------

std::vector<std::vector<std::string>> parse_rows(const std::string& text) {
    std::vector<std::vector<std::string>> out;
    std::vector<std::string> row(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '\\' && i + 1 < text.size()) {
            const char e = text[++i];
            row.back() += e == 't' ? '\t' : e == 'n' ? '\n' : e;
        } else if (c == '\t') {
            row.emplace_back();
        } else if (c == '\n') {
            out.push_back(std::move(row));
            row.assign(1, "");
        } else {
            row.back() += c;
        }
    }
    return out;
}
std::uint64_t to_u64(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }
std::int64_t to_i64(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }

std::vector<std::vector<std::string>> Asker::rows(const std::string& sql, sink::Params params) {
    if (!error_.empty()) return {};
    params.emplace_back("run", run_);
    const sink::Answer answer = query_(sql, "TabSeparated", params);
    if (!answer.ok()) error_ = answer.error;
    return parse_rows(answer.rows);
}
std::uint64_t Asker::number(const std::string& sql) {
    const auto all = rows(sql);
    return all.empty() ? 0 : to_u64(all[0][0]);
}

}  // namespace tally::reconcile
