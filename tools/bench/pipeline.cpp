// SPDX-License-Identifier: Apache-2.0
// Cases ingest, ship and store: real daemons, the CartPole trace from one producer, timed until all of it reached the level.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "agent/base/clock.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/engine_limit.hpp"
#include "tools/bench/machine.hpp"
#include "tools/bench/ring.hpp"
#include "tools/bench/spool.hpp"
#include "tools/bench/stages.hpp"
#include "tools/load/load.hpp"

namespace tally::bench {

namespace {

// Points/s of all cores together if each stage cost what it costs alone.
double sum_of_stages(const Setting& s, double bytes_per_point) {
    const Shape shape = shape_of(s.quick);
    const double cost = generate_cost(shape, s.quick) + ring_cost(shape, s.quick) + encode_cost(shape, s.quick) +
                        spool_cost(s.dir + "/stage", s.quick) * bytes_per_point;
    return cores() / cost;
}

struct Moved {
    Line line;
    std::string error;
};

// About `rate` points a second are expected; what matters is the time they really took.
Moved move(const Setting& s, FarEnd far, int level, double rate, const char* measured_dir) {
    Moved out;
    const double cpu_before = cpu_seconds();
    const Shape shape = shape_of(s.quick);
    load::Totals t;
    {
        Daemons daemons(s.dir, far);
        if (!daemons.ok()) return {{}, daemons.why()};
        load::Options l;
        l.socket = daemons.socket();
        l.run = "bench";
        l.envs = shape.envs;
        l.metrics = shape.metrics;
        l.shape = load::Shape::rl;
        l.env_steps = 16;
        l.rl_steps = static_cast<std::uint32_t>(std::max(2.0, std::ceil(s.seconds * rate / static_cast<double>(shape.points()) / 16)));
        if (s.quick) l.rl_steps = 8;
        l.flush_level = level;
        l.flush_timeout_ns = 600'000'000'000;
        t = load::load(l);
        out.line.bytes_per_point = static_cast<double>(bytes_under(s.dir + measured_dir)) / static_cast<double>(t.points);
        if (t.errors.empty() && far == FarEnd::store) out.line.verdict = prove_store(s.dir, "bench");
        if (t.errors.empty() && far == FarEnd::landing) out.line.verdict = prove_landing(s.dir, "bench");
    }
    if (!t.errors.empty()) return {{}, t.errors.front()};
    if (t.dropped > 0) return {{}, "points were dropped"};
    out.line.cpu_s = cpu_seconds() - cpu_before;
    if (far == FarEnd::none) out.line.verdict = prove_spool(s.dir + "/spool", "bench");
    out.line.points = static_cast<double>(t.points);
    out.line.seconds = t.seconds_to_level;
    out.line.more.emplace_back("cpu_ns_per_point", out.line.cpu_s * 1e9 / out.line.points);
    return out;
}

}  // namespace

Lines ingest(const Setting& s) {
    Moved m = move(s, FarEnd::none, 1, 60e6, "/spool");
    if (!m.error.empty()) return failed(m.error);
    m.line.limit_name = "the sum of the stages' costs alone, all cores";
    m.line.limit_per_s = sum_of_stages(s, m.line.bytes_per_point);
    return std::vector{m.line};
}

Lines ship(const Setting& s) {
    Moved m = move(s, FarEnd::landing, 2, 30e6, "/landing");
    if (!m.error.empty()) return failed(m.error);
    m.line.limit_name = "the sum of the stages' costs alone, all cores";
    m.line.limit_per_s = sum_of_stages(s, m.line.bytes_per_point);
    return std::vector{m.line};
}

Lines store(const Setting& s) {
    Moved m = move(s, FarEnd::store, 3, 12e6, "/store");
    if (!m.error.empty()) return failed(m.error);
    m.line.limit_name = "the engine inserting the same rows from memory, merges settled";
    const auto limit = engine_limit(s.dir + "/engine", s.quick);
    if (!limit) return failed(limit.error());
    m.line.limit_per_s = *limit;
    return std::vector{m.line};
}

}  // namespace tally::bench
