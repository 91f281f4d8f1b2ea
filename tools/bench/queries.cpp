// SPDX-License-Identifier: Apache-2.0
// Cases query and reconcile: a filled embedded store, asked while it takes 5 M points/s, and proven.
#include <algorithm>
#include <cmath>
#include <thread>

#include "agent/base/clock.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/machine.hpp"
#include "tools/bench/stages.hpp"
#include "tools/load/load.hpp"
#include "tools/reconcile/store_proof.hpp"
#include "tools/store_client.hpp"

namespace tally::bench {

namespace {

load::Options load_of(const std::string& socket, const std::string& run, const Shape& shape, std::uint64_t points) {
    load::Options l;
    l.socket = socket;
    l.run = run;
    l.envs = shape.envs;
    l.metrics = shape.metrics;
    l.shape = load::Shape::rl;
    l.env_steps = 16;
    l.rl_steps = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, points / shape.points() / 16));
    l.flush_level = 3;
    l.flush_timeout_ns = 3'600'000'000'000;
    return l;
}

std::string error_of(const load::Totals& t) {
    if (!t.errors.empty()) return t.errors.front();
    return t.dropped > 0 ? "points were dropped" : "";
}

tools::QueryFn opened(const std::string& dir, std::string& error) {
    tools::StoreWhere where;
    where.config = dir + "/receiver.toml";
    auto store = tools::open_store(where);
    if (store) return store->query;
    error = store.error();
    return {};
}

struct Asked {
    std::vector<double> ms;
    std::string error;
    double p(double share) {
        std::sort(ms.begin(), ms.end());
        return ms.empty() ? 0 : ms[std::min(ms.size() - 1, static_cast<std::size_t>(static_cast<double>(ms.size()) * share))];
    }
};

void ask(const tools::QueryFn& query, const std::string& sql, const std::string& format, const sink::Params& params, Asked& out) {
    const std::int64_t began = monotonic_ns();
    const sink::Answer a = query(sql, format, params);
    if (!a.ok() && out.error.empty()) out.error = a.error;
    out.ms.push_back(static_cast<double>(monotonic_ns() - began) / 1e6);
}

Line query_line(const char* shape, Asked& asked, double goal_ms) {
    Line line;
    line.shape = shape;
    line.points = static_cast<double>(asked.ms.size());
    for (const double ms : asked.ms) line.seconds += ms / 1e3;
    line.limit_name = "goal: p99 of " + std::to_string(static_cast<int>(goal_ms)) + " ms";
    line.limit_per_s = 1e3 / goal_ms;
    line.ratio_to_limit = asked.p(0.99) / goal_ms;
    line.smaller_is_better = true;
    line.more = {{"p50_ms", asked.p(0.5)}, {"p99_ms", asked.p(0.99)}};
    return line;
}

}  // namespace

Lines query(const Setting& s) {
    const Shape shape = shape_of(s.quick);
    Daemons daemons(s.dir, FarEnd::store);
    if (!daemons.ok()) return failed(daemons.why());
    const load::Totals filled = load::load(load_of(daemons.socket(), "bench", shape, s.quick ? 16 * shape.points() : s.full ? 10'000'000'000 : 256'000'000));
    if (const std::string e = error_of(filled); !e.empty()) return failed(e);
    std::string error;
    const tools::QueryFn ask_store = opened(s.dir, error);
    if (!ask_store) return failed(error);

    load::Options live = load_of(daemons.socket(), "live", shape, s.quick ? 16 * shape.points() : static_cast<std::uint64_t>(s.seconds * 5e6));
    live.points_per_s = s.quick ? 0 : 5e6;
    load::Totals meanwhile;
    Asked series;
    Asked map;
    {
        std::atomic<bool> over{false};
        const std::jthread writer([&] {
            meanwhile = load::load(live);
            over.store(true);
        });
        for (std::uint64_t i = 0; !over.load() || i < 8; ++i) {
            const std::uint64_t pick = load::mix(7, i, 0, 0);
            char metric[16];
            std::snprintf(metric, sizeof metric, "m%02u", static_cast<unsigned>(pick % shape.metrics));
            ask(ask_store, "SELECT step, value FROM tallyman.series(run = {run:String}, metric = {metric:String}, env = {env:UInt32}) ORDER BY step", "RowBinary",
                {{"run", "bench"}, {"metric", metric}, {"env", std::to_string(pick / 64 % shape.envs)}}, series);
            if (i % 20 == 19 || i == 0)
                ask(ask_store,
                    "SELECT intDiv(env, 500) AS x, intDiv(step, 10) AS y, avg(value) FROM tallyman.points WHERE run = {run:String} AND metric = "
                    "{metric:String} AND step < 1000 GROUP BY x, y",
                    "RowBinary", {{"run", "bench"}, {"metric", metric}}, map);
        }
    }
    if (const std::string e = error_of(meanwhile); !e.empty()) return failed(e);
    if (!series.error.empty() || !map.error.empty()) return failed(series.error + map.error);
    Line one = query_line("one series, while ingesting", series, 100);
    Line heat = query_line("heat map of all environments x up to 1,000 steps, while ingesting", map, 1000);
    const std::string first = prove_store(s.dir, "bench");
    const std::string second = prove_store(s.dir, "live");
    one.verdict = heat.verdict = first == "exact" ? second : first;
    for (Line* l : {&one, &heat}) l->more.emplace_back("points_in_store", static_cast<double>(filled.points));
    return std::vector{heat, one};
}

Lines reconcile(const Setting& s) {
    const Shape shape = shape_of(s.quick);
    Daemons daemons(s.dir, FarEnd::store);
    if (!daemons.ok()) return failed(daemons.why());
    const load::Totals filled = load::load(load_of(daemons.socket(), "bench", shape, s.quick ? 16 * shape.points() : s.full ? 1'000'000'000 : static_cast<std::uint64_t>(s.seconds * 16e6)));
    if (const std::string e = error_of(filled); !e.empty()) return failed(e);
    std::string error;
    const tools::QueryFn ask_store = opened(s.dir, error);
    if (!ask_store) return failed(error);
    Line line;
    line.verdict = prove_store(s.dir, "bench");  // waits until all has settled; what is timed comes after it
    Asked read;
    Asked prove;
    const double cpu = cpu_seconds_of(daemons.receiver());
    for (int i = 0; i < 3; ++i) {
        ask(ask_store, "SELECT v.p0, v.p1, v.p2, v.p3 FROM tallyman.points_w4 WHERE run = {run:String}", "Null", {{"run", "bench"}}, read);
        const reconcile::Report r = reconcile::prove_store(ask_store, "bench");
        if (r.verdict != "exact") return failed(verdict_of(r));
        prove.ms.push_back(r.seconds * 1e3);
    }
    if (!read.error.empty()) return failed(read.error);
    line.cpu_s = (cpu_seconds_of(daemons.receiver()) - cpu) / 3;
    line.points = static_cast<double>(filled.points);
    line.seconds = prove.p(0.5) / 1e3;
    line.limit_name = "reading the same columns";
    line.limit_per_s = line.points * 1e3 / read.p(0.5);
    line.more = {{"ns_per_point", line.seconds * 1e9 / line.points}};
    return std::vector{line};
}

}  // namespace tally::bench
