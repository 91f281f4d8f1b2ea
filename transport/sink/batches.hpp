// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The receiver's own durable record of which landing positions went into which insert.
// Flow    store: plan() before the first insert of a batch, done() after the last; after a restart open() tells both.
// Format  <landing>/batches/log: records of u32 magic, u32 body bytes, u64 XXH3 of the body, body = u8 kind (1 plan, 2 done,
//         3 settled), u64 batch, u64 counter, u64 landing start, interval set. A torn tail is cut off at opening.
// Invariants
//   I1  plan() and done() return only after fsync.
//   I2  A position is in at most one plan.
// Errors  io, full; then nothing was recorded.

#include <map>
#include <string>
#include <vector>

#include "agent/base/fd.hpp"
#include "agent/base/interval_set.hpp"
#include "agent/base/types.hpp"

namespace tally::sink {

struct BatchPlan {
    std::uint64_t batch = 0;  // written into every row
    std::uint64_t counter = 0;
    StartId start{};
    IntervalSet seqs;
};

class Batches {
public:
    // `landing` makes batch ids of several receivers on one store differ.
    static Result<Batches> open(const std::string& landing_dir, const Uuid& landing);

    // Planned but not done by an earlier life, oldest first.
    const std::vector<BatchPlan>& open_plans() const { return open_plans_; }
    bool is_done(StartId start, Seq seq) const;

    Result<BatchPlan> plan(StartId start, const IntervalSet& seqs);
    Status done(const BatchPlan& plan);

private:
    Status load(const std::string& path);
    Status compact(const std::string& path);
    Status append(std::uint8_t kind, const BatchPlan& plan);

    Fd file_;
    Uuid landing_;
    std::uint64_t counter_ = 0;
    std::vector<BatchPlan> open_plans_;
    std::map<StartId, IntervalSet> done_;
};

}  // namespace tally::sink
