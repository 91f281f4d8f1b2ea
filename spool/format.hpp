// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The fixed parts of spool files as they lie on disk; FORMAT.md is this file in prose.
// Format  spool/FORMAT.md, version 1.

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tally::spool {

inline constexpr std::uint64_t segment_magic = 0x31474553'594C4154ULL;  // "TALYSEG1"
inline constexpr std::uint64_t ack_magic = 0x314B4341'594C4154ULL;      // "TALYACK1"
inline constexpr std::uint32_t record_magic = 0x43455254;               // "TREC"
inline constexpr std::uint32_t version = 1;
inline constexpr std::uint32_t block_bytes = 4096;  // unit of writing, alignment of every record
inline constexpr std::uint32_t payload_bytes_max = 16U << 20;
inline constexpr std::uint32_t cursor_key_bytes_max = 64;
inline constexpr std::uint32_t cursor_value_bytes_max = 1U << 20;
inline constexpr std::uint32_t group_records_max = 4096;

struct SegmentHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t header_bytes;  // multiple of 4096; fixed part, starts table, cursor table, zero padding
    std::uint64_t xxh3;          // of bytes [24, header_bytes)
    std::uint8_t spool[16];
    std::uint64_t segment_number;  // in the lane's chain, from 1, never reused
    std::uint64_t salt;            // random per opening of the file; every record repeats it
    std::uint64_t start;
    std::uint64_t segment_bytes;  // size of the file
    std::uint64_t committed_group;  // newest durable group of `start` when this header was written
    std::uint64_t first_seq;        // no record in here has a lower sequence of `start`
    std::int64_t created_ns;        // wall clock, informative
    std::uint32_t lane;
    std::uint32_t starts;        // entries of the starts table
    std::uint32_t cursors;       // entries of the cursor table
    std::uint32_t cursor_bytes;  // bytes of the cursor table
    std::uint64_t committed_seq[3];  // last sequence per lane of groups <= committed_group; 0 when none
    std::uint64_t next_number[3];    // no segment of the lane had this number or a higher one
    std::uint8_t reserved[32];
};
static_assert(sizeof(SegmentHeader) == 192 && std::is_trivially_copyable_v<SegmentHeader>);
static_assert(offsetof(SegmentHeader, spool) == 24 && offsetof(SegmentHeader, created_ns) == 88);
static_assert(offsetof(SegmentHeader, committed_seq) == 112 && offsetof(SegmentHeader, next_number) == 136);

// How an earlier life on this spool ended: what lies beyond was never committed.
struct EndedStart {
    std::uint64_t start;
    std::uint64_t group;   // last committed group; 0 when none
    std::uint64_t seq[3];  // last committed sequence per lane; 0 when none
};
static_assert(sizeof(EndedStart) == 40 && std::is_trivially_copyable_v<EndedStart>);

enum RecordFlags : std::uint16_t { record_rewritten = 1 };  // a second copy, after its first segment became suspect

struct RecordHeader {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t header_bytes;   // 128
    std::uint64_t header_xxh3;    // of bytes [16, 128 + cursor_bytes)
    std::uint64_t payload_xxh3;
    std::uint64_t salt;
    std::uint64_t start;
    std::uint64_t group;
    std::uint32_t index;  // 0 .. total-1 within the group, over all lanes
    std::uint32_t total;
    std::uint8_t lane;
    std::uint8_t reserved0;
    std::uint16_t flags;
    std::uint32_t cursor_bytes;
    std::uint64_t seq;
    std::uint64_t durable;  // newest group of `start` that was durable when this was written
    std::uint32_t payload_bytes;
    std::uint32_t cursors;
    std::uint64_t segment_number;
    std::uint64_t offset;  // of this header in the file
    std::uint64_t durable_seq[3];  // last sequence per lane of groups <= durable; 0 when none
};
static_assert(sizeof(RecordHeader) == 128 && std::is_trivially_copyable_v<RecordHeader>);
static_assert(offsetof(RecordHeader, payload_xxh3) == 16 && offsetof(RecordHeader, lane) == 56);
static_assert(offsetof(RecordHeader, seq) == 64 && offsetof(RecordHeader, durable_seq) == 104);

struct AckFileHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t bytes;  // of the file
    std::uint64_t xxh3;   // of bytes [24, bytes)
    std::uint64_t generation;  // the higher valid slot counts
    std::uint8_t spool[16];
    std::uint32_t entries;
    std::uint32_t keep_until;  // 0 received, 1 stored: what a record is kept for
};
static_assert(sizeof(AckFileHeader) == 56 && std::is_trivially_copyable_v<AckFileHeader>);

}  // namespace tally::spool
