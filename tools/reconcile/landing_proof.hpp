// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The proof at the landing: the same comparison from received parcels, without a database.
// Flow    spool::scan -> parcel readers -> sums per (producer, attempt, dtype, metric) -> Report.
// Limits  Needs a landing that keeps everything ([landing] keep_acked, or no sink); otherwise only what is still there is seen.

#include <string>

#include "tools/reconcile/report.hpp"

namespace tally::tools::reconcile {

Report prove_landing(const std::string& landing_dir, const std::string& run);

}  // namespace tally::tools::reconcile
