// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What has been imported into a run from this host, so that a second import goes on where the first ended and doubles nothing.
// Flow    import.cpp <-> <state dir>/<run>.json (mode 0600)
// Threads One thread; one process per run, by a lock on the file's neighbour.
// Invariants
//   I1  An entry is `open` on disk before the first of its new rows is logged, and closed only after they were durable in the spool: an
//       entry found open belongs to an import that was killed, whose rows may be there in part.
// Errors  busy: another import into this run goes on; corrupt: the file is no state of ours (it is left alone).

#include <string>
#include <vector>

#include "agent/base/fd.hpp"
#include "tools/import/source.hpp"

namespace tally::import {

struct Known {
    std::string path;
    std::uint64_t rows = 0;
    std::uint64_t hash = 0;
    bool open = false;
};

class State {
public:
    // Default directory: $XDG_STATE_HOME/tallyman/import, else ~/.local/state/tallyman/import; as root /var/lib/tallyman/import.
    static std::string default_dir();
    static Result<State> open(const std::string& dir, const std::string& run);

    const std::vector<Known>& known() const { return known_; }
    const Known* find(const std::string& path) const;
    // Sets the entry of `path` and writes the file, synced.
    Status set(const Known& entry);

private:
    std::string file_;
    Fd lock_;
    std::vector<Known> known_;
};

}  // namespace tally::import
