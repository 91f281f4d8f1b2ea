// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    `tallyman bench`: real processes on this machine, each figure beside the limit measured in the same run.

#include <string>

namespace tally::bench {

struct Options {
    std::string name;  // ingest, store
    double seconds = 20;
    int repeats = 3;
    std::string dir;  // empty: a new one under /tmp
    bool json = false;
};

int run(const Options& options);

}  // namespace tally::bench
