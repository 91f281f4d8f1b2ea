// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    `tallyman bench`: each stage and the whole path on this machine, each figure beside a limit measured in the same run.
// Flow    options -> the case's function, once per repeat -> lines, the median of each, a summary -> text or JSON.
// Errors  Exit 1: a case could not run, or what it moved does not reconcile exactly. No figure is ever a reason to fail.

#include <string>
#include <vector>

namespace tally::bench {

struct Options {
    std::string name;    // of a case, or all
    double seconds = 0;  // how long a repeat moves data; 0: the case's own
    int repeats = 0;     // 0: the case's own
    std::string dir;     // empty: a new one under /tmp
    bool json = false;
    bool full = false;   // as large as tools/bench/README.md says, once
    bool quick = false;  // as small as it goes: the figures mean nothing, the exactness does
};

std::vector<std::string> case_names();
int run(const Options& options);

}  // namespace tally::bench
