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
#include "spool/options.hpp"

namespace tally::spool {

struct AckSets {
    std::uint64_t durable_group = 0;  // of the start, when this was saved
    std::uint64_t durable_seq = 0;    // last sequence of this lane in groups <= durable_group
    Uuid receiver;                    // who said `received`; nil: several, or nobody yet
    IntervalSet received;
    IntervalSet stored;
    IntervalSet lost;  // parked, damaged or dropped, and the gap that says so is durable
    bool operator==(const AckSets&) const = default;
};
using LaneKey = std::pair<std::uint64_t, Lane>;  // start, lane
using AckTable = std::map<LaneKey, AckSets>;

inline constexpr std::uint64_t slot_bytes_max = 256ULL << 20;

Bytes encode_acks(const AckTable& table, const Uuid& spool, std::uint64_t generation, KeepUntil keep_until = KeepUntil::received);
struct DecodedAcks {
    std::uint64_t generation = 0;
    KeepUntil keep_until = KeepUntil::received;
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
    Status save(const AckTable& table, KeepUntil keep_until);
    // As of load().
    KeepUntil keep_until() const { return keep_until_; }
    std::uint64_t bytes() const { return bytes_[0] + bytes_[1]; }

private:
    std::string slot_path(unsigned slot) const { return dir_ + "/acks." + std::to_string(slot); }

    std::string dir_;
    Uuid spool_;
    std::uint64_t generation_ = 0;
    unsigned next_slot_ = 0;
    std::uint64_t bytes_[2] = {};
    bool certain_ = true;
    KeepUntil keep_until_ = KeepUntil::received;
};

}  // namespace tally::spool
