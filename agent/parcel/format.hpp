// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The fixed parts of a parcel as they lie in bytes; FORMAT.md is this file in prose with an example.
// Format  agent/parcel/FORMAT.md, version 1.

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tally::parcel {

inline constexpr std::uint32_t magic = 0x4C435054;  // "TPCL"
inline constexpr std::uint16_t version = 1;
inline constexpr std::uint32_t parcel_bytes_max = 16U << 20;   // larger is refused everywhere
inline constexpr std::uint32_t parcel_bytes_target = 512U << 10;
inline constexpr std::uint32_t section_raw_bytes_max = 64U << 20;
inline constexpr std::uint32_t sections_max = 4096;
inline constexpr std::uint32_t tile_envs_max = 4096;
inline constexpr std::uint32_t tile_steps_max = 64;
inline constexpr std::uint32_t row_values_max = 64;

struct ParcelHeader {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t header_bytes;  // 128
    std::uint64_t xxh3;          // of bytes [16, total_bytes)
    std::uint32_t total_bytes;
    std::uint16_t sections;
    std::uint8_t lane;
    std::uint8_t flags;  // 0
    std::uint64_t start;
    std::uint64_t seq;
    std::uint64_t group;
    std::uint8_t spool[16];
    std::int64_t created_ns;  // wall clock of the host, informative
    std::uint64_t points;     // points in the frame and scalar sections
    std::uint32_t table_bytes;  // sections * sizeof(SectionEntry)
    std::uint8_t reserved[44];
};
static_assert(sizeof(ParcelHeader) == 128 && std::is_trivially_copyable_v<ParcelHeader>);
static_assert(offsetof(ParcelHeader, total_bytes) == 16 && offsetof(ParcelHeader, start) == 24);
static_assert(offsetof(ParcelHeader, spool) == 48 && offsetof(ParcelHeader, table_bytes) == 80);

enum class SectionKind : std::uint16_t {
    frames = 1,     // bulk
    scalars = 2,    // bulk
    ledger = 3,     // live, and all below
    episodes = 4,
    stats = 5,
    events = 6,
    producers = 7,
    gaps = 8,
    start = 9,
    file = 10,  // file lane; reserved
};
enum SectionFlags : std::uint16_t {
    section_optional = 1,  // a reader that does not know the kind skips it; without the flag it refuses the section
    section_zstd = 2,      // body is one zstd frame of raw_bytes
};

struct SectionEntry {
    std::uint16_t kind;
    std::uint16_t flags;
    std::uint32_t offset;     // from the parcel's first byte, multiple of 8
    std::uint32_t bytes;      // in the parcel
    std::uint32_t raw_bytes;  // after section_zstd; else == bytes
    std::uint64_t xxh3;       // of the `bytes` bytes
};
static_assert(sizeof(SectionEntry) == 24 && std::is_trivially_copyable_v<SectionEntry>);

enum class Transform : std::uint8_t {
    raw = 0,       // byte planes, as they are
    constant = 1,  // one value (dtype width bytes), repeated
    zstd = 2,      // byte planes, one zstd frame
};

// One tile: a metric x up to 4,096 items (environments, or rows of the row list) x up to 64 steps.
// Values are ordered item-major: value (item, step) is number item * steps + step. Plane p holds byte p of every
// value, planes follow one another.
struct TileHeader {
    std::uint32_t frame;        // index in the section's frame table
    std::uint16_t metric;       // index in the section's metric table
    std::uint8_t transform;
    std::uint8_t reserved0;
    std::uint32_t item_first;   // environment relative to env_first, or position in the sorted row list
    std::uint32_t items;        // 1..4096
    std::uint32_t step_offset;  // in steps of the frame
    std::uint32_t steps;        // 1..64
    std::uint32_t data_bytes;   // follows this header, padded to 8
    std::uint32_t reserved1;
};
static_assert(sizeof(TileHeader) == 32 && std::is_trivially_copyable_v<TileHeader>);

}  // namespace tally::parcel
