// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What both daemons need around their roles: wake eventfds, signals, problems on stderr.

#include <functional>
#include <string>
#include <vector>

#include "agent/base/fd.hpp"
#include "config/schema.hpp"

namespace tally::app {

class Wake {
public:
    Wake();
    int fd() const { return fd_.get(); }
    void operator()() const;  // any thread
private:
    Fd fd_;
};

// SIGTERM, SIGINT, SIGHUP as a descriptor; blocks them in this thread and those made later. SIGPIPE is ignored.
Fd block_signals();
// The next pending signal, 0 when none.
int take_signal(int fd);

// Prints each problem; true when there was one.
bool print_problems(const std::vector<config::Problem>& problems);
std::string host_name();

}  // namespace tally::app
