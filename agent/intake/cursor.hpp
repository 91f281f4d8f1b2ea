// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Where intake stands in one ring: the value a commit group carries for it.
// Format  spool/FORMAT.md, "Cursors of the agent".
// Errors  decode: unsupported (layout version), truncated, corrupt.

#include <string>

#include "agent/base/bytes.hpp"
#include "agent/base/result.hpp"
#include "agent/base/types.hpp"

namespace tally::intake {

enum class RingEnd : std::uint8_t {
    open = 0,
    finished = 1,  // closed and drained, its producer is not closed yet
    died = 2,      // its producer was closed; offered again it goes on from here
    lost = 3,
    corrupt = 4,  // read no further, its loss is declared
    closed = 5,   // its producer finished and is closed; kept until the ring has surely heard of it
};

struct RingCursor {
    RingEnd end = RingEnd::open;
    std::uint64_t position = 0;
    std::uint64_t record_number = 0;
    std::uint64_t points_total = 0;
    std::uint64_t episodes = 0;
    std::uint64_t events = 0;
    std::uint64_t stats = 0;
    std::uint64_t episodes_hash = 0;  // sums of parcel::row_hash
    std::uint64_t events_hash = 0;
    std::uint64_t stats_hash = 0;
    std::uint64_t dropped_points = 0;  // declared as gaps so far
    std::uint64_t producer_number = 0;  // the highest number of its producer's records when this was written
    std::uint32_t block = 0;
    Uuid producer;
    std::uint32_t attempt = 0;
    std::int64_t run_created_ns = 0;
    std::string run;
    std::string project;

    bool operator==(const RingCursor&) const = default;
};

Bytes cursor_key(const Uuid& ring);
Result<Uuid> cursor_key_decode(ByteView key);
Bytes encode(const RingCursor& cursor);
Result<RingCursor> decode_cursor(ByteView value);

}  // namespace tally::intake
