// SPDX-License-Identifier: Apache-2.0
#include "agent/app/reload.hpp"

namespace tally::app {

void log_change(const config::Change& c) {
    log_info("config.changed", {{"key", c.path}, {"before", c.before}, {"after", c.after}, {"takes", c.reloadable ? "a reload" : "a restart"}});
}

void log_refused_reload(const std::vector<config::Problem>& problems) {
    for (const config::Problem& p : problems) log_error("config.refused", {{"problem", p.line_text()}});
}

void log_reloaded(std::size_t changes, std::size_t need_restart) {
    log_info("config.reloaded", {{"changes", changes}, {"need_restart", need_restart},
                                 {"what", need_restart == 0 ? "in force" : "nothing is in force: restart the service, or take those keys back"}});
}

}  // namespace tally::app
