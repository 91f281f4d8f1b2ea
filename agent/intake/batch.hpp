// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What intake hands to the disk role: the parcels of one commit group, and what their commit moves.
// Flow    Intake::cut() -> app: stamp each parcel, spool append with the cursors; when the group is durable, set_tail
//         each marked ring to its position.

#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/base/types.hpp"

namespace tally::intake {

enum class RingHandle : std::uint64_t {};  // of one Intake, never used twice

struct DraftParcel {
    Lane lane = Lane::live;
    Bytes bytes;  // unstamped
    std::uint64_t points = 0;
};
struct CursorUpdate {
    Bytes key;
    Bytes value;  // empty: remove
};
struct RingMark {
    RingHandle ring{};
    std::uint64_t position = 0;
};
struct Batch {
    std::vector<DraftParcel> parcels;  // live ones first, at least one
    std::vector<CursorUpdate> cursors;
    std::vector<RingMark> marks;
    std::uint64_t points = 0;
    std::uint64_t losses = 0;  // calls of Intake::loss() that this and earlier batches declare
};

}  // namespace tally::intake
