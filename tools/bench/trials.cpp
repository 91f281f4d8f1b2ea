// SPDX-License-Identifier: Apache-2.0
// Case trials: Ray Tune's shapes, one process per trial, one scalar per report, then sleep; against the same loop with no logging. What
// counts is when the last trial is through, as in the published table.
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/client/tallyman.h"
#include "tools/bench/cases.hpp"
#include "tools/bench/crowd.hpp"
#include "tools/bench/machine.hpp"

namespace tally::bench {

namespace {

struct Shape {
    const char* name;
    std::uint32_t trials;
    double per_s;
    bool flush = false;      // flush("disk") after every report
    bool checkpoint = false; // 0.75 GB written and synced on the spool's disk meanwhile
};
constexpr Shape shapes[] = {
    {"96 x 10/s", 96, 10},     {"96 x 50/s", 96, 50},     {"96 x 80/s", 96, 80},    {"96 x 100/s", 96, 100}, {"96 x 500/s", 96, 500}, {"256 x 10/s", 256, 10},
    {"256 x 20/s", 256, 20},   {"256 x 50/s", 256, 50},   {"1000 x 0.1/s", 1000, 0.1}, {"1000 x 1/s", 1000, 1}, {"1000 x 10/s", 1000, 10},
    {"16 x 1/s, each flushed to disk", 16, 1, true}, {"16 x 10/s beside 0.75 GB checkpoints", 16, 10, false, true},
};
constexpr Shape quick_shapes[] = {{"8 x 50/s", 8, 50}, {"4 x 20/s, each flushed to disk", 4, 20, true}};

void sleep_ns(std::int64_t ns) {
    timespec t{static_cast<time_t>(ns / 1'000'000'000), ns % 1'000'000'000};
    while (::nanosleep(&t, &t) != 0) {
    }
}

struct Loop {
    Shape shape;
    std::uint32_t reports;
    std::string socket;  // empty: no logging
    std::string run;
};

int trial(const Loop& loop, const Crowd::Member& me) {
    tally_run* run = nullptr;
    int series = -1;
    if (!loop.socket.empty()) {
        run = open_run(loop.socket, loop.run, me.index, loop.shape.trials);
        if (run == nullptr || (series = tally_series(run, "score", TALLY_F64)) < 0) return 1;
    }
    const auto pause = static_cast<std::int64_t>(1e9 / loop.shape.per_s);
    bool ok = true;
    me.ready_and_wait();
    const std::int64_t began = monotonic_ns();
    for (std::uint32_t i = 0; i < loop.reports; ++i) {
        if (run != nullptr) {
            ok &= tally_log_f64(run, series, i, i * 0.5) == 0;
            if (loop.shape.flush) ok &= tally_flush(run, TALLY_DISK, 30'000'000'000) == 0;
        }
        sleep_ns(pause);
    }
    me.finished(monotonic_ns() - began);
    return (run == nullptr || tally_run_close(run, 0) == 0) && ok ? 0 : 1;
}

// Writes and syncs 0.75 GB again and again until it is killed.
pid_t start_checkpoints(const std::string& dir) {
    return spawn([&] {
        const std::vector<char> block(8U << 20, 'c');
        for (;;) {
            const int fd = ::open((dir + "/checkpoint").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
            for (int i = 0; fd >= 0 && i < 94; ++i)
                if (::write(fd, block.data(), block.size()) < 0) break;
            if (fd < 0 || ::fsync(fd) != 0) return 1;
            ::close(fd);
        }
    });
}

struct Took {
    std::int64_t longest_ns = 0;
    double cpu_s = 0;
    bool ok = false;
};

Took play(const Loop& loop, const std::string& dir) {
    const pid_t writer = loop.shape.checkpoint ? start_checkpoints(dir) : 0;
    const double cpu = cpu_seconds();
    Crowd crowd;
    for (std::uint32_t i = 0; i < loop.shape.trials; ++i) crowd.start(i, [&](const Crowd::Member& me) { return trial(loop, me); });
    crowd.wait_ready();
    crowd.go();
    Took out;
    out.ok = crowd.join();
    out.longest_ns = crowd.longest_ns();
    out.cpu_s = cpu_seconds() - cpu;
    if (writer > 0) {
        ::kill(writer, SIGKILL);
        wait_for(writer);
    }
    return out;
}

}  // namespace

Lines trials(const Setting& s) {
    Daemons daemons(s.dir, FarEnd::landing);
    if (!daemons.ok()) return failed(daemons.why());
    std::vector<Line> lines;
    std::vector<Shape> all(std::begin(shapes), std::end(shapes));
    if (s.quick) all.assign(std::begin(quick_shapes), std::end(quick_shapes));
    for (const Shape& shape : all) {
        const double seconds = s.full ? 100 : s.seconds;
        Loop loop{shape, static_cast<std::uint32_t>(std::max(1.0, std::round(shape.per_s * seconds))), {}, "trials-" + std::to_string(lines.size())};
        const Took bare = play(loop, s.dir);
        loop.socket = daemons.socket();
        const double agent = cpu_seconds_of(daemons.agent());
        const Took logged = play(loop, s.dir);
        if (!bare.ok || !logged.ok) return failed(std::string("a trial failed: ") + shape.name);
        Line line;
        line.shape = shape.name;
        line.points = static_cast<double>(shape.trials) * loop.reports;
        line.seconds = static_cast<double>(logged.longest_ns) / 1e9;
        line.cpu_s = cpu_seconds_of(daemons.agent()) - agent;
        line.limit_name = "the same loop with no logging";
        line.limit_per_s = line.points * 1e9 / static_cast<double>(bare.longest_ns);
        line.ratio_to_limit = static_cast<double>(logged.longest_ns) / static_cast<double>(bare.longest_ns);
        line.smaller_is_better = true;
        line.verdict = prove_landing(s.dir, loop.run);
        lines.push_back(line);
    }
    return lines;
}

}  // namespace tally::bench
