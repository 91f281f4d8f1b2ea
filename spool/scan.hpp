// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Read-only walk over a spool directory, also one that is in use: for tools and proofs.
// Threads Any; takes no lock and changes nothing.
// Limits  Records appended while it walks may or may not be seen; committed ones present at the start are.

#include <functional>
#include <string>

#include "spool/spool.hpp"

namespace tally::spool {

struct ScannedRecord {
    RecordHeader header{};
    bool committed = false;
    bool acked = false;  // received per the ack file
    Payload payload;
};
struct ScanSummary {
    Uuid spool;
    std::uint64_t segments = 0;
    std::uint64_t bytes = 0;
    std::uint64_t records = 0;
    std::uint64_t uncommitted = 0;
    CursorTable cursors;  // committed view
    std::vector<Damage> damage;
};
// Calls `visit` for every valid record in chain order, lane by lane; return false to stop.
Result<ScanSummary> scan(const std::string& dir, const std::function<bool(const ScannedRecord&)>& visit);

}  // namespace tally::spool
