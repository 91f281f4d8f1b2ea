// SPDX-License-Identifier: Apache-2.0
// Case idle: agent and receiver with eight attached producers that say nothing.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "agent/base/clock.hpp"
#include "agent/client/tallyman.h"
#include "tools/bench/cases.hpp"
#include "tools/bench/crowd.hpp"
#include "tools/bench/machine.hpp"

namespace tally::bench {

namespace {

constexpr std::uint32_t producers = 8;
constexpr double until_asleep_s = 12;  // the agent announces sleep after 10 s of silence

int silent(const std::string& socket, const Crowd::Member& me) {
    tally_run* run = open_run(socket, "bench", me.index, producers);
    if (run == nullptr) return 1;
    const int series = tally_series(run, "x", TALLY_F64);
    bool ok = series >= 0 && tally_log_f64(run, series, 0, 1.0) == 0;
    me.ready_and_wait();
    ok = ok && tally_log_f64(run, series, 1, 2.0) == 0;
    return tally_run_close(run, 0) == 0 && ok ? 0 : 1;
}

void sleep_s(double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); }

}  // namespace

Lines idle(const Setting& s) {
    Daemons daemons(s.dir, FarEnd::landing);
    if (!daemons.ok()) return failed(daemons.why());
    Crowd crowd;
    const std::string socket = daemons.socket();
    for (std::uint32_t i = 0; i < producers; ++i) crowd.start(i, [&](const Crowd::Member& me) { return silent(socket, me); });
    crowd.wait_ready();
    sleep_s(s.quick ? 0.2 : until_asleep_s);
    const double agent = cpu_seconds_of(daemons.agent());
    const double receiver = cpu_seconds_of(daemons.receiver());
    const std::int64_t began = monotonic_ns();
    sleep_s(s.full ? 60 : s.seconds);
    Line line;
    line.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
    line.cpu_s = cpu_seconds_of(daemons.agent()) - agent;
    const double receiver_cpu = cpu_seconds_of(daemons.receiver()) - receiver;
    line.points = producers;
    line.limit_name = "goal: 0.2 % of a core";
    line.limit_per_s = 0.002;
    line.ratio_to_limit = std::max(1e-6, line.cpu_s / line.seconds / 0.002);
    line.smaller_is_better = true;
    line.more = {{"cpu_share", line.cpu_s / line.seconds},
                 {"rss_bytes", static_cast<double>(rss_of(daemons.agent()))},
                 {"receiver_cpu_share", receiver_cpu / line.seconds},
                 {"receiver_rss_bytes", static_cast<double>(rss_of(daemons.receiver()))}};
    crowd.go();
    if (!crowd.join()) return failed("a producer failed");
    line.verdict = prove_landing(s.dir, "bench");
    return std::vector{line};
}

}  // namespace tally::bench
