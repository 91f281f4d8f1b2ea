// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Proves a run from the landing directory, without a database, also while a receiver writes it.
// Limits  Sees only what the landing still keeps: everything without a sink, what is not stored yet with one.

#include <expected>

#include "tools/reconcile/report.hpp"

namespace tally::reconcile {

Report prove_landing(const std::string& landing_dir, const std::string& run);

}  // namespace tally::reconcile

namespace tally::tools {

// [landing] dir of a receiver.toml.
std::expected<std::string, std::string> landing_of(const std::string& config_file);

}  // namespace tally::tools
