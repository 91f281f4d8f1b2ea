// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    SIGHUP: reads a daemon's configuration afresh and takes all of it or nothing.
// Threads The main thread.
// Errors  A file with problems changes nothing; each problem is logged. Keys that need a restart are named and keep their old value.

#include <string>

#include "agent/app/service.hpp"
#include "agent/base/log.hpp"
#include "config/files.hpp"

namespace tally::app {

void log_change(const config::Change& change);
void log_refused_reload(const std::vector<config::Problem>& problems);
void log_reloaded(std::size_t changes, std::size_t need_restart);

// True when the file was good: reloadable keys of `config` now have the new values.
template <class Config>
bool reload_config(const std::string& file, Config& config, std::vector<config::Problem> (*load)(const std::string&, Config&),
                   config::Schema (*schema)(Config&)) {
    notify_reloading();
    Config fresh;
    const auto problems = load(file, fresh);
    std::size_t need_restart = 0;
    if (problems.empty()) {
        const auto changes = config::compare(schema(config), schema(fresh));
        for (const config::Change& c : changes) {
            log_change(c);
            need_restart += c.reloadable ? 0 : 1;
        }
        if (need_restart == 0) {
            config = std::move(fresh);
            log_set_level(config.log.level);
        }
        log_reloaded(changes.size(), need_restart);
    } else {
        log_refused_reload(problems);
    }
    notify_ready(problems.empty() ? "configuration reloaded" : "configuration refused at reload: the old one stays in force");
    return problems.empty() && need_restart == 0;
}

}  // namespace tally::app
