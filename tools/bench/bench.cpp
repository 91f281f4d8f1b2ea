// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.hpp"

#include <cstdio>

namespace tally::bench {

int run(const Options& options) {
    std::fprintf(stderr, "tallyman bench %s: not measured yet\n", options.name.c_str());
    return 1;
}

}  // namespace tally::bench
