// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A segment file: its header as bytes, reading and checking it, and making a new file durable.
// Format  spool/FORMAT.md, "Segment".
// Limits  header_bytes_max bounds what is read before a header is believed.

#include <algorithm>
#include <optional>
#include <vector>

#include "agent/base/fd.hpp"
#include "spool/format.hpp"
#include "spool/spool.hpp"

namespace tally::spool {

inline constexpr std::uint64_t header_bytes_max = 256ULL << 20;

// Fills in magic, version, lengths, counts and xxh3; `cursors` may be null (bulk and file chains).
Bytes encode_segment_header(SegmentHeader fixed, const std::vector<EndedStart>& starts, const CursorTable* cursors);
std::uint64_t segment_header_bytes(std::size_t starts, const CursorTable* cursors);

struct ReadHeader {
    SegmentHeader fixed{};
    std::vector<EndedStart> starts;
    Bytes cursors;  // the table as it lies there; empty unless asked for
};
// Checks everything but the spool: the caller knows which one it is, or wants to find out.
Result<ReadHeader> read_segment_header(int fd, Lane lane, std::uint64_t number, bool with_cursors);

// One committed record's place; what fetch needs besides the bytes.
struct RecordRef {
    std::uint64_t seq = 0;
    std::uint64_t group = 0;
    std::uint64_t offset = 0;
    std::uint32_t cursor_bytes = 0;
    std::uint32_t payload_bytes = 0;
    std::uint64_t payload_xxh3 = 0;
};

struct Segment {
    Lane lane = Lane::live;
    std::uint64_t number = 0;
    std::string path;
    SegmentHeader header{};
    std::uint64_t seq_end = UINT64_MAX;  // lowest first_seq of the same start's later segments in the chain

    // Of segments this life opened.
    bool own = false;
    bool appending = false;           // the one its lane writes to
    bool suspect = false;             // a write failed: nothing is written here again
    Fd fd;                            // open as long as the writer refers to this segment
    std::uint64_t write_at = 0;       // where the next record begins
    std::uint32_t runs_in_flight = 0;    // parts of groups that are not durable yet
    std::uint32_t writes_in_flight = 0;  // submitted, not completed; `fd` must live
    std::uint64_t durable_claimed = 0;  // highest `durable` that lies in here, synced

    // Committed records, in order of offset; dropped when nobody reads here and loaded again by walking.
    bool indexed = false;
    std::vector<RecordRef> index;
    bool known = false;  // the four below are exact
    std::uint64_t seq_min = 0;
    std::uint64_t seq_max = 0;
    std::uint64_t group_max = 0;
    std::uint64_t records = 0;
    std::uint64_t payload_bytes = 0;

    void note(std::uint64_t seq, std::uint64_t group, std::uint64_t bytes) {
        seq_min = records == 0 ? seq : std::min(seq_min, seq);
        seq_max = std::max(seq_max, seq);
        group_max = std::max(group_max, group);
        payload_bytes += bytes;
        ++records;
    }
};

// Creates, preallocates and zero-fills the file, writes the header, syncs file and folder. On failure the file is gone
// again. The descriptor is O_DIRECT where the file system has it.
Result<Fd> create_segment_file(const std::string& path, std::uint64_t segment_bytes, ByteView header, bool in_recovery);

// Reads and checks one payload.
Result<Payload> read_payload(int fd, const RecordRef& at);

}  // namespace tally::spool
