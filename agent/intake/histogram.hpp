// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Counts of finite values by the top 16 bits of the value as f32 (relative error <= 0.4 %), sparse.
// Owns    A table of 65,536 x 2 counters that is all zero between calls; only touched parts are looked at and cleared.
// Limits  Values too large for f32 count at its largest finite number, so the counts add up to count - nonfinite.

#include <cstdint>
#include <vector>

#include "agent/base/types.hpp"

namespace tally::intake {

class Histogram {
public:
    Histogram();
    void add(const std::uint8_t* values, Dtype dtype, std::uint32_t n);
    // Appends the bins ascending with their counts, and is empty again.
    void take(std::vector<std::uint16_t>& bins, std::vector<std::uint32_t>& counts);

private:
    void take_group(std::size_t group, std::vector<std::uint16_t>& bins, std::vector<std::uint32_t>& counts);
    void add_keys(const std::uint16_t* keys, std::size_t n, std::size_t stride);

    std::vector<std::uint32_t> counts_;  // two per bin, so that runs of equal values do not wait for one another
    std::vector<std::uint8_t> touched_;  // one per 32 bins
};

}  // namespace tally::intake
