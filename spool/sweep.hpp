// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Saves acknowledgements, then deletes segments nobody needs any more.
// Threads role: disk.
// Invariants
//   S1 (I3) only what the ack file on disk covers is deleted.
//   S2 the newest live segment stays: it names the earlier starts and holds the cursor table.
//   S3 a live segment with a group above the cursor table of the newest live header stays: its cursors are needed.
//   S4 a segment with a group above what the newest live segment or the ack file says is durable stays: recovery would
//      have to find that group complete.
// Limits  At most walks_max segments are read and deletes_max deleted per call, so that the disk role goes on.

#include "spool/store.hpp"

namespace tally::spool {

class Sweeper {
public:
    explicit Sweeper(Store& store) : store_(store) {}
    void acks_changed() { dirty_ = true; }
    Status sweep();

private:
    bool deletable(Segment& segment);
    bool covered(Segment& segment);
    Status delete_covered(Lane lane);
    void forget_starts();

    Store& store_;
    bool dirty_ = false;
    std::uint32_t walks_left_ = 0;
    std::uint32_t deletes_left_ = 0;
};

}  // namespace tally::spool
