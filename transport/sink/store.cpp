// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/store.hpp"

#include <algorithm>
#include <deque>
#include <mutex>

#include "agent/base/log.hpp"
#include "spool/fault_point.hpp"
#include "transport/sink/batches.hpp"
#include "transport/sink/rows.hpp"
#include "transport/sink/schema.hpp"

namespace tally::sink {

namespace {

constexpr std::int64_t retry_after_ns = 2'000'000'000;
constexpr const char* insert_settings =
    " SETTINGS async_insert = 0, insert_deduplicate = 0, fsync_metadata = 1, max_insert_threads = 1, min_insert_block_size_rows = 0, "
    "min_insert_block_size_bytes = 0";

struct Waiting {
    StartId start{};
    Seq seq{};
    std::shared_ptr<const Bytes> payload;
    std::uint64_t points = 0;
};

// A batch between its plan and its done mark.
struct Current {
    BatchPlan plan;
    std::unique_ptr<RowBuilder> rows;
    bool check = false;  // ask for the batch id first
};

ConnectionOptions writer_options(const Options& o) {
    return {o.library, o.dir, {{"max_memory_usage", "0"}}};
}

ConnectionOptions reader_options(const Options& o) {
    return {o.library, o.dir, {{"max_memory_usage", std::to_string(o.query_memory_bytes)},
                               {"max_execution_time", std::to_string(o.query_seconds)},
                               {"max_threads", std::to_string(o.query_threads)},
                               {"max_result_rows", std::to_string(o.query_rows)},
                               {"readonly", "1"}}};
}

class StoreImpl final : public Store {
public:
    StoreImpl(const Options& options, Batches batches, std::unique_ptr<Connection> writer, std::unique_ptr<Connection> reader)
        : options_(options), batches_(std::move(batches)), writer_(std::move(writer)), reader_(std::move(reader)),
          reopened_(batches_.open_plans().begin(), batches_.open_plans().end()) {}

    bool wants_more() const override { return waiting_bytes_ < options_.queue_bytes && !current_; }

    void add(StartId start, Seq seq, std::shared_ptr<const Bytes> payload, std::int64_t now) override {
        // Done by an earlier life that did not get to say so: nothing to insert.
        if (batches_.is_done(start, seq)) {
            settled_.push_back({start, {}});
            settled_.back().seqs.insert(raw(seq));
            return;
        }
        if (waiting_.empty()) first_waiting_ns_ = now;
        const auto view = parcel::peek(*payload);
        const std::uint64_t points = view ? view->header.points : 0;
        waiting_points_ += points;
        waiting_bytes_ += payload->size();
        waiting_.push_back({start, seq, std::move(payload), points});
    }

    Result<std::vector<StoredRange>> poll(std::int64_t now) override {
        std::vector<StoredRange> out = std::exchange(settled_, {});
        if (!current_ && due(now)) {
            if (auto cut = begin(now); !cut) return std::unexpected(cut.error());
        }
        if (current_ && now >= retry_at_ns_) {
            if (insert_all()) {
                TALLY_TRY(batches_.done(current_->plan));
                spool::fault_point("done-written");
                out.push_back({current_->plan.start, current_->plan.seqs});
                const std::lock_guard lock(stats_mutex_);
                ++stats_.batches;
                stats_.points += current_->rows->points();
                stats_.refused_sections += current_->rows->refused_sections();
                current_.reset();
            } else {
                current_->check = true;
                retry_at_ns_ = now + retry_after_ns;
                const std::lock_guard lock(stats_mutex_);
                ++stats_.retries;
            }
        }
        const std::lock_guard lock(stats_mutex_);
        stats_.batch_age_s = waiting_.empty() ? 0 : static_cast<double>(now - first_waiting_ns_) / 1e9;
        return out;
    }

    void ask_early_cut() override { early_.store(true); }

    Answer query(std::string_view sql, std::string_view format, const Params& params) override {
        const std::lock_guard lock(reader_mutex_);
        return reader_->query(sql, format, params);
    }

    StoreStats stats() const override {
        const std::lock_guard lock(stats_mutex_);
        return stats_;
    }

private:
    bool due(std::int64_t now) {
        if (waiting_.empty()) {
            early_.store(false);
            return false;
        }
        // A plan of an earlier life is taken up as soon as all of it was read again.
        if (!reopened_.empty()) return reopened_complete();
        if (now - last_cut_ns_ < options_.cut_spacing_ns) return false;
        return early_.load() || waiting_points_ >= options_.cut_points || waiting_bytes_ >= options_.cut_bytes ||
               now - first_waiting_ns_ >= options_.cut_interval_ns;
    }

    // Everything of the oldest open plan is here, or the landing has gone past it (then the rest was damaged).
    bool reopened_complete() const {
        const BatchPlan& plan = reopened_.front();
        IntervalSet here;
        for (const Waiting& w : waiting_) {
            if (w.start != plan.start || raw(w.seq) > plan.seqs.intervals().back().last) return true;
            here.insert(raw(w.seq));
        }
        for (const Interval& i : plan.seqs.intervals())
            if (!here.missing(i.first, i.last).empty()) return waiting_bytes_ >= options_.queue_bytes;
        return true;
    }

    Status begin(std::int64_t now) {
        last_cut_ns_ = now;
        early_.store(false);
        std::optional<BatchPlan> reopened;
        if (!reopened_.empty()) {
            reopened = std::move(reopened_.front());
            reopened_.pop_front();
        }
        std::vector<Waiting> taken = take(reopened ? &*reopened : nullptr);
        if (reopened && taken.empty()) return batches_.done(*reopened);  // all of it is gone from the landing
        IntervalSet seqs;
        for (const Waiting& w : taken) seqs.insert(raw(w.seq));
        BatchPlan plan;
        if (reopened) {
            plan = std::move(*reopened);
        } else {
            auto planned = batches_.plan(taken.front().start, seqs);
            if (!planned) return std::unexpected(planned.error());
            plan = std::move(*planned);
            spool::fault_point("plan-written");
        }
        const std::uint64_t id = plan.batch;
        const bool check = plan.seqs.count() != 0 && batches_.open_plans().size() > 0 && is_open(id);
        current_.emplace(Current{std::move(plan), std::make_unique<RowBuilder>(id), check});
        retry_at_ns_ = 0;
        for (const Waiting& w : taken) current_->rows->add_parcel(*w.payload);
        return {};
    }
    bool is_open(std::uint64_t batch) const {
        for (const BatchPlan& p : batches_.open_plans())
            if (p.batch == batch) return true;
        return false;
    }

    // The leading records of one landing start, up to the sizes of a batch, or exactly those of a reopened plan.
    std::vector<Waiting> take(const BatchPlan* plan) {
        std::vector<Waiting> out;
        std::uint64_t points = 0;
        std::uint64_t bytes = 0;
        while (!waiting_.empty()) {
            Waiting& w = waiting_.front();
            if (plan != nullptr && (w.start != plan->start || !plan->seqs.contains(raw(w.seq)))) break;
            if (plan == nullptr && !out.empty() &&
                (w.start != out.front().start || points + w.points > options_.cut_points || bytes + w.payload->size() > options_.cut_bytes))
                break;
            points += w.points;
            bytes += w.payload->size();
            out.push_back(std::move(w));
            waiting_.pop_front();
        }
        waiting_points_ -= points;
        waiting_bytes_ -= bytes;
        return out;
    }

    // False: not all tables have the batch; try again later, asking first.
    bool insert_all() {
        bool any = false;
        const std::vector<Block*> blocks = current_->rows->blocks();
        for (Block* block : blocks) {
            // Runs of two months make two blocks of one table, which the batch id cannot tell apart: inserted again, the row
            // keys make them once.
            const auto same = std::count_if(blocks.begin(), blocks.end(), [&](const Block* b) { return b->table() == block->table(); });
            if (current_->check && same == 1) {
                const auto there = has_batch(block->table());
                if (!there) return false;
                if (*there) continue;
            }
            const auto pieces = block->pieces();
            const std::string error = writer_->insert("INSERT INTO tallyman." + block->table() + insert_settings, pieces);
            if (!error.empty()) {
                log_error("sink.insert", {{"table", block->table()}, {"why", error}});
                return false;
            }
            if (!any) spool::fault_point("some-tables-inserted");
            any = true;
        }
        spool::fault_point("insert-done");
        return true;
    }

    std::optional<bool> has_batch(const std::string& table) {
        const Answer a = writer_->query("SELECT count() FROM (SELECT 1 FROM tallyman." + table + " WHERE batch = " + std::to_string(current_->plan.batch) + " LIMIT 1)");
        if (!a.ok()) {
            log_error("sink.batch_lookup", {{"table", table}, {"why", a.error}});
            return std::nullopt;
        }
        return a.rows != "0\n";
    }

    const Options options_;
    Batches batches_;
    std::unique_ptr<Connection> writer_;
    std::unique_ptr<Connection> reader_;
    std::deque<BatchPlan> reopened_;
    std::deque<Waiting> waiting_;
    std::uint64_t waiting_bytes_ = 0;
    std::uint64_t waiting_points_ = 0;
    std::int64_t first_waiting_ns_ = 0;
    std::int64_t last_cut_ns_ = 0;
    std::int64_t retry_at_ns_ = 0;
    std::optional<Current> current_;
    std::vector<StoredRange> settled_;
    std::atomic<bool> early_{false};
    std::mutex reader_mutex_;
    mutable std::mutex stats_mutex_;
    StoreStats stats_;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const Options& options, const Uuid& landing) {
    TALLY_TRY(make_dirs(options.dir));
    auto writer = Connection::open(writer_options(options));
    if (!writer) return std::unexpected(writer.error());
    TALLY_TRY(apply_schema(**writer));
    auto reader = Connection::open(reader_options(options));
    if (!reader) return std::unexpected(reader.error());
    auto batches = Batches::open(options.landing_dir, landing);
    if (!batches) return std::unexpected(batches.error());
    return std::unique_ptr<Store>(std::make_unique<StoreImpl>(options, std::move(*batches), std::move(*writer), std::move(*reader)));
}

}  // namespace tally::sink
