// SPDX-License-Identifier: Apache-2.0
// Case log: what one log call costs its caller, call by call. Bursts fit the ring; beyond it the pipeline sets the pace (case ingest).
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include <nlohmann/json.hpp>

#include "agent/base/clock.hpp"
#include "agent/client/tallyman.h"
#include "tools/bench/cases.hpp"
#include "tools/bench/crowd.hpp"
#include "tools/bench/machine.hpp"
#include "tools/bench/stages.hpp"

namespace tally::bench {

namespace {

struct Pace {
    std::uint32_t burst = 1;  // calls in a row
    double pause_s = 0;       // between bursts
    std::uint32_t calls = 0;
};

struct Times {
    double p50 = 0;
    double p999 = 0;
};

Times times_of(std::vector<std::int64_t> ns) {
    std::sort(ns.begin(), ns.end());
    return {static_cast<double>(ns[ns.size() / 2]), static_cast<double>(ns[std::min(ns.size() - 1, ns.size() * 999 / 1000)])};
}

template <class F>
Times time_calls(const Pace& pace, const F& call) {
    std::vector<std::int64_t> ns;
    ns.reserve(pace.calls);
    while (ns.size() < pace.calls) {
        for (std::uint32_t i = 0; i < pace.burst && ns.size() < pace.calls; ++i) {
            const std::int64_t began = monotonic_ns();
            call(static_cast<std::int64_t>(ns.size()));
            ns.push_back(monotonic_ns() - began);
        }
        if (pace.pause_s > 0) ::usleep(static_cast<useconds_t>(pace.pause_s * 1e6));
    }
    return times_of(std::move(ns));
}

[[gnu::noinline]] void empty_call(std::int64_t step) { asm volatile("" : : "r"(step) : "memory"); }

Line line_of(const char* shape, const Pace& pace, double points_a_call, const Times& took, const char* limit, const Times& alone) {
    Line line;
    line.shape = shape;
    line.points = pace.calls * points_a_call;
    line.seconds = took.p50 * pace.calls / 1e9;
    line.per_s = points_a_call * 1e9 / std::max(1.0, took.p50);
    line.limit_name = limit;
    line.limit_per_s = points_a_call * 1e9 / std::max(1.0, alone.p50);
    line.more = {{"p50_ns", took.p50}, {"p999_ns", took.p999}, {"limit_p50_ns", alone.p50}};
    return line;
}

class Logger {
public:
    Logger(tally_run* run, const Setting& s) : run_(run), shape_(shape_of(s.quick)), quick_(s.quick) {
        for (int i = 0; i < 8; ++i) {
            const int id = tally_series(run, ("s" + std::to_string(i)).c_str(), TALLY_F64);
            many_[i] = {static_cast<std::uint32_t>(id), 0, 0};
        }
        std::vector<std::string> names;
        for (std::uint32_t m = 0; m < shape_.metrics; ++m) names.push_back("m" + std::to_string(m));
        std::vector<const char*> pointers;
        for (const std::string& n : names) pointers.push_back(n.c_str());
        tally_block_options b = TALLY_BLOCK_OPTIONS_INIT;
        b.metrics = shape_.metrics;
        b.names = pointers.data();
        b.env_count = shape_.envs;
        block_ = tally_block_open(run, &b);
    }

    Line one(const char* name, const Pace& pace) {
        const Times alone = time_calls(pace, empty_call);
        const Times took = time_calls(pace, [&](std::int64_t) { bad_ |= tally_log_f64(run_, static_cast<int>(many_[0].series), step_++, 0.25) != 0; });
        return line_of(name, pace, 1, took, "an empty function call, timed the same way", alone);
    }
    Line eight(const char* name, const Pace& pace) {
        const Times alone = time_calls(pace, empty_call);
        const Times took = time_calls(pace, [&](std::int64_t) {
            for (tally_scalar& v : many_) v.bits = tally_bits_f64(TALLY_F64, static_cast<double>(step_));
            bad_ |= tally_log_many(run_, step_++, many_, 8, nullptr) != 0;
        });
        return line_of(name, pace, 8, took, "an empty function call, timed the same way", alone);
    }
    Line frame() {
        const Bytes record = trace_records(shape_, 1, 1).front();
        const std::size_t vector_bytes = (std::size_t{shape_.envs} * sizeof(float) + 7) / 8 * 8;
        std::vector<float> matrix(shape_.points());
        for (std::uint32_t m = 0; m < shape_.metrics; ++m)
            std::memcpy(matrix.data() + std::size_t{m} * shape_.envs, record.data() + 40 + m * vector_bytes, shape_.envs * sizeof(float));
        std::vector<std::vector<float>> other(4, std::vector<float>(shape_.points()));
        const Pace pace{1, quick_ ? 0.01 : 0.1, quick_ ? 4U : 40U};
        const Times alone = time_calls(pace, [&](std::int64_t i) {
            std::memcpy(other[static_cast<std::size_t>(i) % 4].data(), matrix.data(), matrix.size() * sizeof(float));
            asm volatile("" : : "r"(other.data()) : "memory");
        });
        const Times took = time_calls(pace, [&](std::int64_t) { bad_ |= tally_block_log_matrix(run_, block_, step_++, matrix.data()) != 0; });
        return line_of("C frame of a million f32, 10/s", pace, static_cast<double>(shape_.points()), took, "memcpy of the same bytes", alone);
    }
    bool bad() const { return bad_; }

private:
    tally_run* run_;
    bench::Shape shape_;
    bool quick_;
    tally_scalar many_[8] = {};
    int block_ = -1;
    std::int64_t step_ = 0;
    bool bad_ = false;
};

constexpr const char* python_text = R"(
import json, time, tallyman
run = tallyman.init(project='bench', run_id='python', producers=1)
names = ['s%d' % i for i in range(8)]
clock = time.perf_counter_ns
def spread(ns):
    ns.sort()
    return ns[len(ns) // 2], ns[len(ns) * 999 // 1000]
def measure(call):
    ns = []
    for burst in range(BURSTS):
        for i in range(200):
            values = {n: i * 0.5 for n in names}
            t = clock(); call(values, burst * 200 + i); ns.append(clock() - t)
        time.sleep(0.05)
    return spread(ns)
def empty(values, step): pass
a, b = measure(empty), measure(lambda values, step: run.log(values, step=step))
run.finish()
print(json.dumps({'empty': a[0], 'p50': b[0], 'p999': b[1]}))
)";

// False: there is no Python or no package here; the line is left out.
bool python(const std::string& socket, bool quick, std::vector<Line>& lines) {
    const std::filesystem::path package = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "python";
    if (!std::filesystem::exists(package)) return false;
    std::string text = python_text;
    text.replace(text.find("BURSTS"), 6, quick ? "3" : "60");
    const std::string command = "PYTHONPATH='" + package.string() + "' TALLYMAN_SOCKET='" + socket + "' python3 - <<'TALLY_END'\n" + text + "\nTALLY_END";
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return false;
    char answer[512] = {};
    const bool read = std::fgets(answer, sizeof answer, pipe) != nullptr;
    if (::pclose(pipe) != 0 || !read) return false;
    const auto j = nlohmann::json::parse(answer, nullptr, false);
    if (!j.is_object()) return false;
    const Pace pace{200, 0.05, quick ? 600U : 12'000U};
    lines.push_back(line_of("Python dict of 8, bursts", pace, 8, {j["p50"], j["p999"]}, "an empty Python call, timed the same way", {j["empty"], 0}));
    return true;
}

}  // namespace

Lines log_calls(const Setting& s) {
    Daemons daemons(s.dir, FarEnd::landing);
    if (!daemons.ok()) return failed(daemons.why());
    std::vector<Line> lines;
    {
        tally_run* run = open_run(daemons.socket(), "bench", 0, 1);
        if (run == nullptr) return failed("no run");
        Logger logger(run, s);
        const std::uint32_t bursts = s.quick ? 3 : 100;
        lines.push_back(logger.one("C 1 scalar, bursts", {1000, 0.05, bursts * 1000}));
        lines.push_back(logger.eight("C 8 scalars, bursts", {500, 0.05, bursts * 500}));
        if (!s.quick) lines.push_back(logger.one("C 1 scalar, 10/s", {1, 0.1, static_cast<std::uint32_t>(s.full ? 1000 : 10 * s.seconds)}));
        lines.push_back(logger.one("C 1 scalar, 500/s", {1, 0.002, static_cast<std::uint32_t>(s.quick ? 20 : 500 * s.seconds)}));
        lines.push_back(logger.frame());
        const bool closed = tally_run_close(run, 0) == 0;
        if (logger.bad() || !closed) return failed("a log call failed");
    }
    const bool with_python = python(daemons.socket(), s.quick, lines);
    if (!with_python) std::fprintf(stderr, "tallyman bench log: no Python package here, its line is left out\n");
    const std::string verdict = prove_landing(s.dir, "bench");
    const std::string python_verdict = with_python ? prove_landing(s.dir, "python") : "";
    for (Line& l : lines) l.verdict = l.shape.starts_with("Python") ? python_verdict : verdict;
    return lines;
}

}  // namespace tally::bench
