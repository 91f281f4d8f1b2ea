// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What a case is and what it returns. One file per case.
// Invariants
//   I1  A line's limit was measured by the same call that measured the line.
//   I2  A case that moves data ends with a proof; what is not exact is an error, whatever the figures are.

#include <cstdint>
#include <expected>
#include <string>
#include <utility>
#include <vector>

namespace tally::bench {

struct Line {
    std::string shape;  // which line of the case; empty: it has one
    double points = 0;  // or whatever `unit` says
    double seconds = 0;
    double bytes_per_point = 0;
    double cpu_s = 0;
    std::string limit_name;
    double limit_per_s = 0;
    double per_s = 0;           // 0: points / seconds
    double ratio_to_limit = 0;  // 0: per_s / limit_per_s
    bool smaller_is_better = false;  // of the ratio
    std::vector<std::pair<std::string, double>> more;  // p50_ns, rss_bytes, ...
    std::string verdict;        // of reconcile; empty where nothing was moved
};

struct Setting {
    std::string dir;  // empty, removed by the caller
    double seconds = 0;
    bool full = false;
    bool quick = false;
};
using Lines = std::expected<std::vector<Line>, std::string>;

struct Case {
    const char* name;
    double seconds;  // of a repeat, by default
    int repeats;
    Lines (*run)(const Setting& setting);
};

Lines log_calls(const Setting& setting);
Lines ring(const Setting& setting);
Lines encode(const Setting& setting);
Lines spool(const Setting& setting);
Lines ingest(const Setting& setting);
Lines ship(const Setting& setting);
Lines store(const Setting& setting);
Lines start(const Setting& setting);
Lines idle(const Setting& setting);
Lines trials(const Setting& setting);
Lines query(const Setting& setting);
Lines reconcile(const Setting& setting);

inline std::unexpected<std::string> failed(std::string why) { return std::unexpected(std::move(why)); }

}  // namespace tally::bench
