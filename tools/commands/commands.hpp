// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The subcommands of `tallyman`. Each add_* defines its options and sets `run` when it was chosen.

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace tally::tools {

using Run = std::function<int()>;

void add_daemons(CLI::App& app, Run& run);  // agent, receiver, version
void add_config(CLI::App& app, Run& run);   // check, config
void add_store(CLI::App& app, Run& run);    // sql, query, runs, reconcile
void add_import(CLI::App& app, Run& run);  // import
void add_load(CLI::App& app, Run& run);     // load
void add_status(CLI::App& app, Run& run);   // status, spool
void add_bench(CLI::App& app, Run& run);    // bench

}  // namespace tally::tools
