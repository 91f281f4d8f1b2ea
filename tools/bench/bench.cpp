// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "agent/base/log.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/machine.hpp"

namespace tally::bench {

namespace {

using nlohmann::json;

constexpr Case cases[] = {
    {"log", 2, 3, log_calls}, {"ring", 3, 3, ring},      {"encode", 3, 3, encode},  {"spool", 2, 3, spool},
    {"ingest", 20, 3, ingest}, {"ship", 10, 3, ship},    {"store", 60, 1, store},   {"start", 0, 1, start},
    {"idle", 10, 1, idle},     {"trials", 4, 1, trials}, {"query", 30, 1, query},   {"reconcile", 10, 1, reconcile},
};

double per_s(const Line& l) { return l.per_s != 0 ? l.per_s : l.seconds > 0 ? l.points / l.seconds : 0; }
double ratio(const Line& l) { return l.ratio_to_limit != 0 ? l.ratio_to_limit : l.limit_per_s > 0 ? per_s(l) / l.limit_per_s : 0; }

json to_json(const std::string& name, const Line& l) {
    json out{{"case", name},           {"points", l.points},           {"seconds", l.seconds},         {"points_per_s", per_s(l)},
             {"bytes_per_point", l.bytes_per_point}, {"cpu_s", l.cpu_s}, {"limit_name", l.limit_name}, {"limit_per_s", l.limit_per_s},
             {"ratio_to_limit", ratio(l)}};
    if (!l.shape.empty()) out["shape"] = l.shape;
    if (!l.verdict.empty()) out["verdict"] = l.verdict;
    for (const auto& [key, value] : l.more) out[key] = value;
    return out;
}

void print(const std::string& name, const Line& l, const char* mark) {
    std::string text = name;
    if (!l.shape.empty()) text += " " + l.shape;
    std::printf("%-34s %10.2f M/s  %5.2f of %s (%.2f M/s)", text.c_str(), per_s(l) / 1e6, ratio(l), l.limit_name.c_str(), l.limit_per_s / 1e6);
    if (l.bytes_per_point > 0) std::printf("  %.3f B/point", l.bytes_per_point);
    if (l.cpu_s > 0) std::printf("  %.2f CPU-s", l.cpu_s);
    for (const auto& [key, value] : l.more) std::printf("  %s %.4g", key.c_str(), value);
    if (!l.verdict.empty()) std::printf("  %s", l.verdict.c_str());
    std::printf("%s\n", mark);
    std::fflush(stdout);
}

bool worse(const Line& a, const Line& b) { return a.smaller_is_better ? ratio(a) > ratio(b) : ratio(a) < ratio(b); }

// The medians of every shape, the worst of them last: it stands for the case.
std::vector<Line> medians(const std::vector<Line>& lines) {
    std::vector<std::string> order;
    std::map<std::string, std::vector<Line>> shapes;
    for (const Line& l : lines) {
        if (!shapes.contains(l.shape)) order.push_back(l.shape);
        shapes[l.shape].push_back(l);
    }
    std::vector<Line> out;
    for (const std::string& shape : order) {
        std::vector<Line>& of = shapes[shape];
        std::sort(of.begin(), of.end(), worse);
        Line middle = of[of.size() / 2];
        middle.more.emplace_back("worst_of_repeats", ratio(of.front()));
        out.push_back(std::move(middle));
    }
    std::rotate(std::min_element(out.begin(), out.end(), worse), std::min_element(out.begin(), out.end(), worse) + 1, out.end());
    return out;
}

json summary_of(const std::string& name, const std::vector<Line>& lines) {
    json out = to_json(name, lines.back());
    out["summary"] = true;
    if (lines.size() == 1) return out;
    out["worst_ratio"] = ratio(lines.back());
    out["shapes"] = json::array();
    for (const Line& l : lines) out["shapes"].push_back(to_json(name, l));
    return out;
}

Setting setting_of(const Options& o, const Case& c, const std::string& dir) {
    Setting s;
    s.dir = dir;
    s.seconds = o.seconds > 0 ? o.seconds : o.quick ? 0.2 : c.seconds;
    s.full = o.full;
    s.quick = o.quick;
    return s;
}

// False when it could not run, or what it moved is not exact.
bool run_case(const Options& o, const Case& c, const std::string& base, json& results) {
    std::vector<Line> lines;
    const int repeats = o.repeats > 0 ? o.repeats : o.full || o.quick ? 1 : c.repeats;
    for (int i = 0; i < repeats; ++i) {
        const TempDir dir(base);
        const Lines done = c.run(setting_of(o, c, dir.path()));
        if (!done) {
            std::fprintf(stderr, "tallyman bench %s: %s\n", c.name, done.error().c_str());
            return false;
        }
        for (const Line& l : *done) {
            results.push_back(to_json(c.name, l));
            if (!o.json) print(c.name, l, "");
            lines.push_back(l);
        }
    }
    const std::vector<Line> middle = medians(lines);
    results.push_back(summary_of(c.name, middle));
    if (!o.json && repeats > 1)
        for (const Line& l : middle) print(c.name, l, "  (median)");
    return std::all_of(lines.begin(), lines.end(), [&](const Line& l) {
        const bool ok = l.verdict.empty() || l.verdict == "exact";
        if (!ok) std::fprintf(stderr, "tallyman bench %s: %s\n", c.name, l.verdict.c_str());
        return ok;
    });
}

}  // namespace

std::vector<std::string> case_names() {
    std::vector<std::string> out;
    for (const Case& c : cases) out.emplace_back(c.name);
    return out;
}

int run(const Options& options) {
    log_setup(LogLevel::warn, false);
    json results = json::array();
    bool ok = true;
    for (const Case& c : cases)
        if (options.name == "all" || options.name == c.name) ok &= run_case(options, c, options.dir, results);
    if (options.json) std::printf("%s\n", json{{"results", results}}.dump().c_str());
    return ok ? 0 : 1;
}

}  // namespace tally::bench
