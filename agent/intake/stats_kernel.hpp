// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Count, non-finite, minimum, maximum, sum and sum of squares of one vector of values; conversion in blocks.

#include <cstdint>

#include "agent/base/types.hpp"

namespace tally::intake {

struct Summary {
    std::uint64_t count = 0;
    std::uint64_t nonfinite = 0;
    double min = 0;  // of the finite values; 0 when there is none
    double max = 0;
    double sum = 0;
    double sum_squares = 0;
};

Summary summarize(const std::uint8_t* values, Dtype dtype, std::uint32_t n);

// The values as f64, exact but for 64-bit integers beyond 2^53. `out` has room for n.
void to_f64(const std::uint8_t* values, Dtype dtype, std::size_t n, double* out);

}  // namespace tally::intake
