// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/store.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"
#include "spool/fault_point.hpp"
#include "spool/scan.hpp"
#include "transport/sink/schema.hpp"

namespace tally::sink {

namespace {

constexpr std::int64_t ns_per_s = 1'000'000'000;
constexpr std::int64_t retry_ns_max = 30 * ns_per_s;

// One Native block must become one part, synced before it is answered for. Rows of one batch are distinct, so sorting suffices.
constexpr const char* insert_settings =
    " SETTINGS async_insert = 0, max_insert_block_size = 1000000000, min_insert_block_size_rows = 0, min_insert_block_size_bytes = 0, "
    "max_partitions_per_insert_block = 1, optimize_on_insert = 0, input_format_parallel_parsing = 0, max_insert_threads = 1, "
    "insert_deduplicate = 0";

std::string insert_statement(const std::string& table) { return "INSERT INTO tallyman." + table + insert_settings; }

}  // namespace

std::string kind_problem(Kind kind) {
    if (kind == Kind::clickhouse || kind == Kind::kafka) return "this build stores into \"chdb\" or \"none\"";
    return {};
}

ConnectionOptions reader_options(const Options& options) {
    return {options.library, options.dir,
            {{"readonly", "1"},
             {"max_memory_usage", std::to_string(options.query_memory_bytes)},
             {"max_execution_time", std::to_string(options.query_seconds)},
             {"max_threads", std::to_string(options.query_threads)},
             {"max_result_rows", std::to_string(options.query_rows)}}};
}

Result<std::unique_ptr<Store>> Store::open(const Options& options, const Uuid& landing) {
    if (options.kind != Kind::chdb) return fail(Code::unsupported, "sink: kind");
    TALLY_TRY(make_dirs(options.dir));
    auto ledger = BatchLedger::open(options.landing_dir, landing);
    if (!ledger) return std::unexpected(ledger.error());
    auto store = std::unique_ptr<Store>(new Store(options, std::move(*ledger)));
    auto writer = Connection::open({options.library, options.dir, {}});
    if (!writer) return std::unexpected(writer.error());
    store->writer_ = std::move(*writer);
    TALLY_TRY(apply_schema(*store->writer_));
    for (Reader& reader : store->readers_) {
        auto connection = Connection::open(reader_options(options));
        if (!connection) return std::unexpected(connection.error());
        reader.connection = std::move(*connection);
    }
    TALLY_TRY(store->recover());
    store->report(store->ledger_.stored());
    store->count_parts();
    return store;
}

Store::~Store() = default;

// ---- recovery ------------------------------------------------------------------------------------------------

Status Store::recover() {
    const std::vector<BatchPlan> plans = ledger_.open_plans();
    for (const BatchPlan& plan : plans) TALLY_TRY(finish_plan(plan));
    return {};
}

Status Store::finish_plan(const BatchPlan& plan) {
    std::uint64_t wanted = 0;
    for (const auto& [start, set] : plan.records) wanted += set.count();
    RowBuilder rows(plan.batch);
    std::map<std::pair<StartId, Seq>, spool::Payload> found;
    const auto scanned = spool::scan(options_.landing_dir, [&](const spool::ScannedRecord& record) {
        const StartId start{record.header.start};
        const auto it = plan.records.find(start);
        if (record.header.lane == static_cast<std::uint8_t>(Lane::live) && record.committed && it != plan.records.end() &&
            it->second.contains(record.header.seq))
            found.try_emplace({start, Seq{record.header.seq}}, record.payload);
        return found.size() < wanted;
    });
    if (!scanned) return std::unexpected(scanned.error());
    for (const auto& [id, payload] : found) rows.add_parcel(*payload);
    log_info("sink.plan_open", {{"batch", plan.batch}, {"records", found.size()}, {"missing", wanted - found.size()}});
    batch_ = plan.batch;
    if (!insert_blocks(rows, true)) return fail(Code::refused, "sink: an open plan cannot be inserted", plan.batch);
    TALLY_TRY(ledger_.done(plan.batch));
    batch_ = 0;
    const std::scoped_lock lock(stats_mutex_);
    stats_.missing_records += wanted - found.size();
    return {};
}

// ---- batches -------------------------------------------------------------------------------------------------

bool Store::wants_more() const { return waiting_bytes_ < options_.queue_bytes && waiting_points_ < options_.cut_points; }

void Store::add(StartId start, Seq seq, spool::Payload payload, std::int64_t now_ns) {
    if (ledger_.is_stored(start, seq)) {  // its done mark was durable, the landing's ack was not
        IntervalSet one;
        one.insert(raw(seq));
        stored_.push_back({start, one});
        return;
    }
    if (waiting_.empty()) waiting_since_ns_ = now_ns;
    waiting_bytes_ += payload->size();
    parcel::ParcelHeader header{};
    if (payload->size() >= sizeof header) std::memcpy(&header, payload->data(), sizeof header);
    waiting_points_ += std::min(header.points, parcel_points_max);
    waiting_.push_back({start, seq, std::move(payload)});
}

bool Store::cut_due(std::int64_t now_ns) {
    if (waiting_.empty() || batch_ != 0) return false;
    if (last_cut_ns_ != 0 && now_ns - last_cut_ns_ < options_.cut_spacing_ns) return false;
    return early_cut_.load(std::memory_order_relaxed) || now_ns - waiting_since_ns_ >= options_.cut_interval_ns ||
           waiting_points_ >= options_.cut_points || waiting_bytes_ >= std::min(options_.cut_bytes, options_.queue_bytes);
}

Status Store::start_batch(std::int64_t now_ns) {
    early_cut_.store(false, std::memory_order_relaxed);
    LandingSets records;
    for (const Waiting& w : waiting_) records[w.start].insert(raw(w.seq));
    const auto batch = ledger_.plan(records);
    if (!batch) return std::unexpected(batch.error());
    spool::fault_point("plan-written");
    batch_ = *batch;
    batch_since_ns_ = waiting_since_ns_;
    batch_records_ = std::exchange(waiting_, {});
    waiting_bytes_ = waiting_points_ = 0;
    last_cut_ns_ = now_ns;
    attempts_ = 0;
    next_attempt_ns_ = now_ns;
    return {};
}

Result<std::vector<StoredRange>> Store::poll(std::int64_t now_ns) {
    if (cut_due(now_ns)) TALLY_TRY(start_batch(now_ns));
    if (batch_ != 0 && now_ns >= next_attempt_ns_) TALLY_TRY(try_batch(now_ns));
    const std::int64_t since = batch_ != 0 ? batch_since_ns_ : waiting_.empty() ? now_ns : waiting_since_ns_;
    {
        const std::scoped_lock lock(stats_mutex_);
        stats_.batch_age_s = static_cast<double>(now_ns - since) / static_cast<double>(ns_per_s);
    }
    return std::exchange(stored_, {});
}

Status Store::try_batch(std::int64_t now_ns) {
    RowBuilder rows(batch_);
    for (const Waiting& w : batch_records_) rows.add_parcel(*w.payload);
    if (!insert_blocks(rows, attempts_ != 0)) {
        next_attempt_ns_ = now_ns + std::min(retry_ns_max, ns_per_s << std::min(attempts_, 5U));
        ++attempts_;
        return {};
    }
    spool::fault_point("insert-done");
    LandingSets records;
    for (const Waiting& w : batch_records_) records[w.start].insert(raw(w.seq));
    TALLY_TRY(ledger_.done(batch_));
    spool::fault_point("done-written");
    {
        const std::scoped_lock lock(stats_mutex_);
        ++stats_.batches;
        stats_.parcels += batch_records_.size();
        stats_.points += rows.points();
        stats_.refused_sections += rows.refused_sections();
        stats_.refused_parcels += rows.refused_parcels();
    }
    batch_ = 0;
    batch_records_.clear();
    report(records);
    count_parts();
    return {};
}

// False: the engine refused; which blocks are in is found out at the next attempt.
bool Store::insert_blocks(RowBuilder& rows, bool look_first) {
    std::string error;
    for (Block* block : rows.blocks()) {
        if (look_first) {
            // Blocks of one table differ by month; a batch of two months and a crash between them is told apart by month.
            const Answer there = writer_->query("SELECT count() FROM (SELECT 1 FROM tallyman." + block->table() + " WHERE batch = " +
                                                std::to_string(batch_) + " AND month = " + std::to_string(block->month()) + " LIMIT 1)");
            error = there.error;
            if (error.empty() && there.rows != "0\n") continue;
        }
        if (error.empty()) error = writer_->insert(insert_statement(block->table() + block->column_list()), block->pieces());
        if (!error.empty()) {
            log_error("sink.insert", {{"table", block->table()}, {"batch", batch_}, {"rows", block->rows()}, {"why", error}});
            const std::scoped_lock lock(stats_mutex_);
            ++stats_.insert_errors;
            return false;
        }
        spool::fault_point("some-tables-inserted");
        const std::scoped_lock lock(stats_mutex_);
        stats_.rows += block->rows();
    }
    return true;
}

void Store::report(const LandingSets& records) {
    for (const auto& [start, set] : records) stored_.push_back({start, set});
}

void Store::count_parts() {
    const Answer answer = writer_->query("SELECT count() FROM system.parts WHERE active AND database = 'tallyman'");
    const std::scoped_lock lock(stats_mutex_);
    if (answer.ok()) stats_.parts = std::strtoull(answer.rows.c_str(), nullptr, 10);
}

// ---- any thread ----------------------------------------------------------------------------------------------

Answer Store::query(const std::string& sql, const std::string& format, const Params& params) {
    const std::size_t first = next_reader_.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < reader_count; ++i) {
        Reader& reader = readers_[(first + i) % reader_count];
        const std::unique_lock lock(reader.busy, std::try_to_lock);
        if (lock) return reader.connection->query(sql, format, params);
    }
    Reader& reader = readers_[first % reader_count];
    const std::scoped_lock lock(reader.busy);
    return reader.connection->query(sql, format, params);
}

StoreStats Store::stats() const {
    const std::scoped_lock lock(stats_mutex_);
    return stats_;
}

}  // namespace tally::sink
