// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Decides what earlier lives committed, and the cursors as of then, from headers and the tails of the chains.
// Flow    listing -> judge -> the new life's first header (or scan).
// Format  spool/FORMAT.md, "Commit groups" and "Opening".
// Invariants
//   R1 groups up to the highest `durable` found are committed, whatever damage they show.
//   R2 beyond it a group is committed if and only if all its records are valid and the one before it is committed.
//   R3 an entry in a valid starts table decides alone.
// Limits  Reads the tail of the newest start only: what lies behind its newest live header, and per other lane what
//         may hold the last groups.

#include <map>
#include <utility>
#include <vector>

#include "spool/ack_file.hpp"
#include "spool/listing.hpp"
#include "spool/walk.hpp"

namespace tally::spool {

using SegmentKey = std::pair<Lane, std::uint64_t>;

struct Judged {
    std::vector<EndedStart> starts;  // every start that has a segment or was not told of yet, oldest first
    CursorTable cursors;
    std::map<SegmentKey, Walk> walks;  // of the segments that had to be read
};
// `acks` says what was durable and whose segments are deleted already. sync_first: the caller is going to act on it (opening),
// so the bytes read must be on the disk.
Result<Judged> judge(const Listing& listing, const AckTable& acks, bool sync_first);

const EndedStart* find_start(const std::vector<EndedStart>& starts, std::uint64_t start);

}  // namespace tally::spool
