// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Records and cursor tables as bytes: making them, and the checks of FORMAT.md ("valid if and only if").
// Limits  Every length is bounded by the enclosing view before anything is reserved.

#include <span>
#include <vector>

#include "agent/base/bytes.hpp"
#include "spool/format.hpp"
#include "spool/paths.hpp"
#include "spool/spool.hpp"

namespace tally::spool {

constexpr std::uint64_t record_bytes(std::uint64_t cursor_bytes, std::uint64_t payload_bytes) {
    return round_up(sizeof(RecordHeader) + cursor_bytes + payload_bytes, block_bytes);
}

void put_cursor(ByteWriter& out, ByteView key, ByteView value);
Result<std::vector<CursorUpdate>> read_cursors(ByteView bytes, std::uint32_t count);
void apply_cursors(CursorTable& table, std::vector<CursorUpdate> updates);

// Sets magic, version, lengths of the cursors and header_xxh3; returns header and cursors, the record's head.
Bytes encode_record_head(RecordHeader header, std::uint32_t cursors, ByteView cursor_bytes);

// Magic, version, lengths and header_xxh3 only: what can be said without the segment's header. `at` begins at the
// record and reaches as far as it may.
bool head_intact(ByteView at, RecordHeader& out);
// The rest of a valid record header: it belongs to this segment and place.
bool head_fits(const RecordHeader& record, const SegmentHeader& segment, std::uint64_t offset);

}  // namespace tally::spool
