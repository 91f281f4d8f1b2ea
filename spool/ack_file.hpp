// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What receivers and sinks have, by start and lane, in two checksummed slots that are written in turn.
// Format  spool/FORMAT.md, "Ack file".
// Errors  A slot that fails its check counts as absent; both absent means sending again, never losing.
// Limits  slot_bytes_max bounds what is read.

#include <map>
#include <string>
#include <utility>

#include "agent/base/interval_set.hpp"
#include "agent/base/types.hpp"
#include "spool/format.hpp"

namespace tally::spool {

struct AckSets {
    IntervalSet received;
    IntervalSet stored;
    bool operator==(const AckSets&) const = default;
};
using LaneKey = std::pair<std::uint64_t, Lane>;  // start, lane
using AckTable = std::map<LaneKey, AckSets>;

inline constexpr std::uint64_t slot_bytes_max = 256ULL << 20;

Bytes encode_acks(const AckTable& table, const Uuid& spool, std::uint64_t generation);
struct DecodedAcks {
    std::uint64_t generation = 0;
    AckTable table;
};
Result<DecodedAcks> decode_acks(ByteView file, const Uuid& spool);

class AckFile {
public:
    AckFile() = default;
    AckFile(std::string dir, Uuid spool) : dir_(std::move(dir)), spool_(spool) {}

    // Reads both slots; the newer valid one counts. Changes nothing.
    AckTable load();
    // False when a slot was unreadable: an older state may have been taken, so what is missing proves nothing.
    bool certain() const { return certain_; }
    Status save(const AckTable& table);
    std::uint64_t bytes() const { return bytes_[0] + bytes_[1]; }

private:
    std::string slot_path(unsigned slot) const { return dir_ + "/acks." + std::to_string(slot); }

    std::string dir_;
    Uuid spool_;
    std::uint64_t generation_ = 0;
    unsigned next_slot_ = 0;
    std::uint64_t bytes_[2] = {};
    bool certain_ = true;
};

}  // namespace tally::spool
