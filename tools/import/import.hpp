// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Imports logs of other trackers and trainers into runs: each row once, however often and from whichever copy it is imported.
// Flow    find_logs -> Source (Reader) -> RunWriter -> agent; State remembers how far each file went
// Threads The calling thread; `stop` may be set from a signal handler.
// Errors  Nothing is thrown away silently: what was refused is counted and named in the Outcome of its file.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tally::import {

struct Options {
    std::vector<std::string> paths;
    std::string run;        // empty = one per file or directory
    std::string project;
    std::string socket;
    std::string state_dir;  // empty = State::default_dir()
    bool follow = false;    // go on reading what grows until `stop`
    double idle_exit_s = 0;  // follow: end after so long without news; 0 = never
    bool dry_run = false;   // read and count, send nothing, remember nothing
};

struct Outcome {
    std::string path, run;
    std::string format;     // empty = no metric log
    std::string step;       // what serves as the step
    std::string continues;  // path of the file whose rows this one repeats at its beginning
    std::uint64_t rows_before = 0;  // rows that had been imported earlier
    std::uint64_t rows = 0, points = 0, nulls = 0;
    std::map<std::string, std::uint64_t> skipped_nonnumeric;  // text, lists, media: name -> count
    std::map<std::string, std::uint64_t> refused_names;       // cells whose name cannot be a metric
    std::uint64_t refused_rows = 0;
    std::string first_refused;  // why, and which row
    std::uint64_t torn_tail_bytes = 0;
    std::string error;  // the file as a whole: why it was not read, or not to its end
    bool named = false;
};

struct Totals {
    std::vector<Outcome> files;
    std::vector<std::string> errors;
    double seconds = 0;
    std::uint64_t points() const;
    bool refused_any() const;  // rows, names or files
};

// `progress`: called about ten times per second while it works.
Totals run_import(const Options& options, const std::atomic<bool>& stop, const std::function<void(const Totals&)>& progress);

}  // namespace tally::import
