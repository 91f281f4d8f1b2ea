// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Proves the rows of the live lane by value: episode headers, events and statistics against the sums of row hashes in CLOSE.
// Format  agent/parcel/FORMAT.md, "Row hashes".
// Limits  Counts are compared elsewhere; where they differ nothing is compared here. One altered field of one row is named, when it
//         changed by a small whole number or by one bit; otherwise the layer of the producer.

#include <cstdint>
#include <map>
#include <string>

#include "tools/reconcile/report.hpp"
#include "tools/reconcile/sums.hpp"

namespace tally::reconcile {

struct RowTotals {  // of one closed producer
    std::uint64_t rows = 0;
    std::uint64_t hash = 0;
};
struct LiveTotals {
    RowTotals episodes, events, stats;
};

// By producer (UUID text). Adds to report.mismatched and its findings.
void prove_rows(Asker& ask, const std::map<std::string, LiveTotals>& logged, bool final, Report& report);

}  // namespace tally::reconcile
