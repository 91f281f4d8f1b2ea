// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Which files an import takes and which run each goes to.
// Threads Pure but for reading directories.

#include <string>
#include <vector>

namespace tally::import {

struct Candidate {
    std::string path;    // absolute
    std::string run;     // a valid run id
    bool named = false;  // by the user, not found in a directory
};

// A file goes to a run named after it; the logs of a directory go to one run named after the directory, below a given one with the path
// in between. `run` given: everything goes there. Hidden files and links to directories are left out; where Ray wrote result.json its
// copies (progress.csv, event files) beside it are left out. Errors are sentences in `errors`.
std::vector<Candidate> find_logs(const std::vector<std::string>& paths, const std::string& run, std::vector<std::string>& errors);

// Characters that a run id may not have become `-`; at most 128.
std::string run_id_of(const std::string& text);

}  // namespace tally::import
