// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Landing records -> the embedded store, exactly once; and queries on it.
// Flow    landing -> add() -> batch -> plan durable -> one Native block per table -> done durable -> StoredRange from poll().
// Threads role: sink, except query(), stats() and ask_early_cut(): any thread.
// Owns    The batch ledger, one writer and reader_count reader connections. Leave the process with _exit afterwards (chdb.hpp).
// Invariants
//   I1 a landing record is reported stored only after the done mark of its batch is durable.
//   I2 a batch is inserted from its plan: retries and restarts look for the batch in every table and insert what is missing.
//   I3 payload bytes held <= queue_bytes + one parcel (wants_more() says when to stop).
// Errors  open: missing (no library), busy (another process has the store), unsupported (newer schema), io. poll: io when the batch
//         ledger cannot be written. What the engine refuses is retried with backoff, for ever; it shows in stats() and the log.

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "spool/spool.hpp"
#include "transport/sink/batches.hpp"
#include "transport/sink/chdb.hpp"
#include "transport/sink/options.hpp"
#include "transport/sink/rows.hpp"

namespace tally::sink {

struct StoredRange {
    StartId start{};
    IntervalSet seqs;  // of landing records
};

struct StoreStats {
    std::uint64_t batches = 0;
    std::uint64_t parcels = 0;
    std::uint64_t points = 0;
    std::uint64_t rows = 0;
    std::uint64_t refused_sections = 0;
    std::uint64_t refused_parcels = 0;
    std::uint64_t missing_records = 0;  // planned before a crash, gone from the landing
    std::uint64_t insert_errors = 0;
    std::uint64_t parts = 0;  // active, of all tables
    double batch_age_s = 0;   // of the oldest landed record that is not stored; 0: none
};

// A connection for users' text: nothing can be written or read beside the store.
ConnectionOptions reader_options(const Options& options);

class Store {
public:
    static Result<std::unique_ptr<Store>> open(const Options& options, const Uuid& landing);
    ~Store();

    bool wants_more() const;
    void add(StartId start, Seq seq, spool::Payload payload, std::int64_t now_ns);
    // Inserts a batch when one is due. What is stored since the last call; the first call names everything known.
    Result<std::vector<StoredRange>> poll(std::int64_t now_ns);
    void ask_early_cut() { early_cut_.store(true, std::memory_order_relaxed); }

    Answer query(const std::string& sql, const std::string& format, const Params& params = {});
    StoreStats stats() const;

private:
    struct Waiting {
        StartId start{};
        Seq seq{};
        spool::Payload payload;
    };
    Store(Options options, BatchLedger ledger) : options_(std::move(options)), ledger_(std::move(ledger)) {}
    Status recover();
    Status finish_plan(const BatchPlan& plan);
    bool cut_due(std::int64_t now_ns);
    Status start_batch(std::int64_t now_ns);
    Status try_batch(std::int64_t now_ns);
    bool insert_blocks(RowBuilder& rows, bool look_first);
    void report(const LandingSets& records);
    void count_parts();

    static constexpr std::size_t reader_count = 2;
    struct Reader {
        std::mutex busy;
        std::unique_ptr<Connection> connection;
    };

    Options options_;
    // role: sink
    BatchLedger ledger_;
    std::unique_ptr<Connection> writer_;
    std::vector<Waiting> waiting_;
    std::uint64_t waiting_bytes_ = 0;
    std::uint64_t waiting_points_ = 0;
    std::int64_t waiting_since_ns_ = 0;
    std::int64_t last_cut_ns_ = 0;
    std::vector<Waiting> batch_records_;  // of the batch at hand
    std::uint64_t batch_ = 0;             // 0: none
    std::int64_t batch_since_ns_ = 0;
    std::uint32_t attempts_ = 0;
    std::int64_t next_attempt_ns_ = 0;
    std::vector<StoredRange> stored_;
    // any thread
    std::array<Reader, reader_count> readers_;
    std::atomic<std::size_t> next_reader_{0};
    std::atomic<bool> early_cut_{false};
    mutable std::mutex stats_mutex_;
    StoreStats stats_;
};

}  // namespace tally::sink
