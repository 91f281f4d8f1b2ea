// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Reads the record headers of one segment, skipping whatever is not valid, block by block.
// Limits  Reads every block that no valid record covers, so at most the file once; payloads are not read.

#include <vector>

#include "spool/segment.hpp"

namespace tally::spool {

struct WalkedRecord {
    RecordHeader header{};
    Bytes cursors;  // as they lie there

    RecordRef ref() const {
        return {header.seq,          header.group,         header.offset,
                header.cursor_bytes, header.payload_bytes, header.payload_xxh3};
    }
};
struct BadRange {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};
struct Walk {
    std::vector<WalkedRecord> records;  // valid headers, in order of offset
    std::vector<BadRange> bad;          // between valid headers, and what is not zero behind the last
    std::uint64_t bad_bytes = 0;
};
// Unreadable blocks count as bad; the walk itself fails only when the file cannot be opened.
Result<Walk> walk_segment(const std::string& path, const SegmentHeader& header, bool sync_first);

// Records in a file without a believable header: only their own checks hold. For naming what was lost.
std::vector<RecordHeader> plausible_records(int fd, std::uint64_t bytes);

}  // namespace tally::spool
