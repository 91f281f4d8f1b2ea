// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Landed parcels into the embedded store, each once, by the batch protocol; and queries on it.
// Flow    lander -> add() -> poll(): plan durable -> one Native block, one insert per table and month -> done durable ->
//         StoredRange -> lander. query() for people.
// Threads role: sink for add and poll. query(): one other thread. ask_early_cut(), stats(): any.
// Owns    The chDB connections and the record of batches.
// Invariants
//   I1  Rows of a batch are inserted only while its plan is durable; StoredRange comes only after its done mark is.
//   I2  After a restart, or an insert without a clear answer, every table is asked for the batch id before inserting.
// Errors  open(): missing (libchdb), busy (the path is in use), io. poll(): only what cannot be healed by trying again.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/interval_set.hpp"
#include "agent/base/types.hpp"
#include "transport/sink/chdb.hpp"
#include "transport/sink/options.hpp"

namespace tally::sink {

struct StoredRange {
    StartId start{};
    IntervalSet seqs;  // of the landing's live lane
};
struct StoreStats {
    std::uint64_t batches = 0;
    std::uint64_t points = 0;
    std::uint64_t refused_sections = 0;
    std::uint64_t retries = 0;
    double batch_age_s = 0;
};

class Store {
public:
    static Result<std::unique_ptr<Store>> open(const Options& options, const Uuid& landing);
    virtual ~Store() = default;

    virtual bool wants_more() const = 0;  // room for another landed parcel
    // In the order of the landing.
    virtual void add(StartId start, Seq seq, std::shared_ptr<const Bytes> payload, std::int64_t now) = 0;
    virtual Result<std::vector<StoredRange>> poll(std::int64_t now) = 0;
    virtual void ask_early_cut() = 0;

    virtual Answer query(std::string_view sql, std::string_view format, const Params& params) = 0;
    virtual StoreStats stats() const = 0;
};

}  // namespace tally::sink
