// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Decides whether the private copy of a record makes sense, and how many points it holds.
// Flow    Consumer calls it on every body it copied; intake relies on what it checked.
// Format  agent/ring/LAYOUT.md, "Records".
// Invariants of an accepted body
//   I1  Its length is what its own counts say, padding of less than 8 bytes aside.
//   I2  frame: the block is the ring's, metrics and rows are in range, steps do not overflow, stride >= 1.
//   I3  scalars: every series is registered. episodes: lengths are >= 0 and first steps do not overflow.
// Errors  corrupt (or unsupported for a kind this build does not know).

#include "agent/ring/registry.hpp"

namespace tally::ring {

inline constexpr std::int64_t episode_length_max = std::int64_t{1} << 40;

// The points of the record, 0 for kinds without points.
Result<std::uint64_t> check_body(RecordKind kind, ByteView body, const Registry& registry);

// Where the values of a frame begin in its body, and how many each vector has.
struct FrameShape {
    std::uint64_t values_at = 0;
    std::uint32_t n = 0;
};
FrameShape frame_shape(const FrameBody& frame, const BlockInfo& block);

}  // namespace tally::ring
