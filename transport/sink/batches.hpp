// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The batch ledger: which landing records make which batch, and which batches are in the store. Durable.
// Flow    Store: plan() -> inserts -> done(); after a crash open_plans() says what may be half inserted.
// Format  <landing>/batches/batches.log: records of u32 magic, u32 body bytes, u64 xxh3 of kind and body, u8 kind, body.
//         kind 1 SNAPSHOT: uuid, u64 salt, u64 counter, u32 n x (u64 start, set stored). Always first.
//         kind 2 PLAN: u64 batch, u64 counter, u32 n x (u64 start, set of landing sequences).
//         kind 3 DONE: u64 batch. Rewritten atomically to one SNAPSHOT and the open PLANs above log_bytes_max.
// Threads role: sink.
// Invariants
//   I1 when plan() or done() has returned, what it says survives power loss.
//   I2 a batch id is never used twice, also when this file is lost: its salt is drawn anew with the file.
// Errors  io. A damaged record ends the log there: what follows is kept aside in batches/damaged-*, and logged; the landing's
//         records are then planned again and the store's row keys make them once.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/base/fd.hpp"
#include "agent/base/interval_set.hpp"
#include "agent/base/types.hpp"

namespace tally::sink {

using LandingSets = std::map<StartId, IntervalSet>;  // sequences of the landing's records

struct BatchPlan {
    std::uint64_t batch = 0;
    LandingSets records;
};

class BatchLedger {
public:
    static Result<BatchLedger> open(const std::string& landing_dir, const Uuid& landing);

    Result<std::uint64_t> plan(const LandingSets& records);  // the new batch's id, never 0
    Status done(std::uint64_t batch);

    const std::vector<BatchPlan>& open_plans() const { return open_; }
    const LandingSets& stored() const { return stored_; }  // of all batches that are done
    bool is_stored(StartId start, Seq seq) const;
    std::uint64_t damaged_bytes() const { return damaged_bytes_; }

private:
    static constexpr std::size_t log_bytes_max = 1U << 20;
    Status append(std::uint8_t kind, const Bytes& body);
    Status compact();
    bool replay(std::uint8_t kind, ByteView body);

    std::string dir_;
    Uuid landing_;
    Fd file_;
    std::size_t file_bytes_ = 0;
    std::uint64_t salt_ = 0;
    std::uint64_t counter_ = 0;
    std::uint64_t damaged_bytes_ = 0;
    std::vector<BatchPlan> open_;
    LandingSets stored_;
};

}  // namespace tally::sink
