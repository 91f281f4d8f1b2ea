// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    `tallyman agent`: wires ring, disk and net roles, answers status, stops cleanly.
// Threads main calls run_agent() and serves signals and the control socket; three more are made here.
// Errors  Exit codes: 0; 2 configuration; 3 spool locked; 4 environment lacks something (or the spool failed).

#include <string>

namespace tally::app {

int run_agent(const std::string& config_file);
// Where the control socket of an agent with this attach socket lies.
std::string control_path(const std::string& attach_socket);

int run_receiver(const std::string& config_file);

}  // namespace tally::app
