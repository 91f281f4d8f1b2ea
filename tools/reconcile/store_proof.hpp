// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The proof at the store: ledger against rows, by count and by value hash, in SQL.
// Flow    QueryFn (HTTP or embedded) -> prove_store -> Report.
// Errors  In Report::error, in the engine's words.
// Limits  Descends only where sums differ: per series family, step windows, tiles, points. Reads without FINAL; rows that are there twice
//         under one key are counted apart.

#include <functional>
#include <string>

#include "tools/reconcile/report.hpp"
#include "transport/sink/chdb.hpp"

namespace tally::tools::reconcile {

using QueryFn = std::function<sink::Answer(const std::string& sql, const std::string& format, const sink::Params& params)>;

Report prove_store(const QueryFn& query, const std::string& run);

}  // namespace tally::tools::reconcile
