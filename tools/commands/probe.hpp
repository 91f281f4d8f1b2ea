// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Tries what a configuration asks for: writes and syncs on the disk of a spool, dials the receiver as the agent would.
// Limits  The dial gives up after ten seconds. Nothing stays behind on either side.

#include "config/files.hpp"
#include "tools/commands/findings.hpp"

namespace tally::tools {

Finding probe_disk(const std::string& name, const std::string& dir);
Finding probe_endpoint(const uplink::Options& options);
Findings probe(const config::AgentConfig& config);
Findings probe(const config::ReceiverConfig& config);

}  // namespace tally::tools
