// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What has been landed of every (spool, start, lane), for ever: decides new, duplicate, pending or conflict.
// Flow    lander asks judge(); cursor values go into the landing's commit groups and come back at the next start.
// Format  spool/FORMAT.md, "Cursors of the receiver's landing".
// Threads role: disk.
// Invariants
//   I1  A sequence is in received() only after the group that landed it is durable.
//   I2  cursor_value() holds every sequence of this and earlier groups: landed and remembered are one commit.
// Limits  Hashes of the newest 4,096 sequences per lane, 64 of them over a restart; an older duplicate is taken by identity
//         alone. 32,768 intervals per lane.

#include <map>
#include <vector>

#include "agent/base/interval_set.hpp"
#include "agent/base/types.hpp"

namespace tally::receiver {

struct LaneKey {
    Uuid spool;
    StartId start{};
    Lane lane = Lane::live;
    auto operator<=>(const LaneKey&) const = default;
};

enum class Verdict : std::uint8_t { fresh, duplicate, pending, conflict };

class Dedup {
public:
    static constexpr std::size_t hashes_max = 4096;
    static constexpr std::size_t hashes_kept = 64;         // in a cursor: a cursor is in every group that touches its lane
    static constexpr std::size_t intervals_max = 1U << 15;  // an honest sender has a handful

    // From a cursor of the landing; corrupt keys or values are an error of our own making.
    Status restore(ByteView key, ByteView value);

    // False: this sequence would make the set of its lane larger than it may get. Ask it again later.
    bool has_room(const LaneKey& key, Seq seq) const;
    Verdict judge(const LaneKey& key, Seq seq, std::uint64_t xxh3) const;
    void begin(const LaneKey& key, Seq seq, std::uint64_t xxh3);  // fresh -> pending
    void abort(const LaneKey& key, Seq seq);                     // the group was not taken: fresh again
    void commit(const LaneKey& key, Seq seq);                    // durable

    const IntervalSet& received(const LaneKey& key) const;
    std::vector<LaneKey> lanes() const;

    static Bytes cursor_key(const LaneKey& key);
    Bytes cursor_value(const LaneKey& key) const;  // durable and pending

private:
    struct LaneState {
        IntervalSet received;
        std::map<std::uint64_t, std::uint64_t> hashes;   // newest sequences
        std::map<std::uint64_t, std::uint64_t> pending;  // sequence -> xxh3
    };
    std::map<LaneKey, LaneState> lanes_;
};

}  // namespace tally::receiver
