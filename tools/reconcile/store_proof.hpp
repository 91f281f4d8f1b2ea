// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Proves a run from SQL alone: what was counted at the source (ledger, CLOSE) against what the store holds.
// Flow    query function -> sums per (producer, attempt, dtype, metric) -> tiles only where they differ -> the point.

#include "tools/reconcile/report.hpp"
#include "tools/store_client.hpp"

namespace tally::reconcile {

// `not_stored`: parcels that were received before this call and are not in the store; while there are any, nothing is exact or lost.
Report prove_store(const tools::QueryFn& query, const std::string& run, std::uint64_t not_stored = 0);

}  // namespace tally::reconcile
