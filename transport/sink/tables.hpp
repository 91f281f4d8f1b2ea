// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The columns of every table, in memory: sql/001.sql as structs. A test inserts into each.
// Flow    rows.cpp fills them.

#include <array>

#include "transport/sink/native.hpp"

namespace tally::sink {

// Where a row comes from, and the batch: the last columns of every table.
struct OriginColumns {
    Fixed<std::uint64_t> start{"origin_start"};
    Fixed<std::uint8_t> lane{"origin_lane"};
    Fixed<std::uint64_t> seq{"origin_seq"};
    Fixed<std::uint32_t> row{"origin_row"};
    Fixed<std::uint32_t> month{"month"};
    Fixed<std::uint64_t> batch{"batch"};

    void attach(Block& b) {
        for (Column* c : std::initializer_list<Column*>{&start, &lane, &seq, &row, &month, &batch}) b.attach(*c);
    }
};

struct Table {
    explicit Table(const char* name) : block(name) {}
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;
    Block block;

protected:
    void attach(std::initializer_list<Column*> columns) {
        for (Column* c : columns) block.attach(*c);
    }
};

struct PointsTable : Table {
    Dictionary run{"run"}, metric{"metric"};
    Fixed<std::uint32_t> env_first{"env_first"};
    Fixed<std::int64_t> step_first{"step_first"};
    Fixed<std::uint8_t> steps{"steps"};
    Fixed<std::int64_t> step_stride{"step_stride"}, step_last{"step_last"};
    NullableI64 rl_step{"rl_step"};
    Fixed<std::int64_t> time_ns{"time_ns"};
    Fixed<std::uint8_t> dtype{"dtype"};
    UuidColumn producer{"producer"};
    Fixed<std::uint32_t> attempt{"attempt"};
    Array<std::uint16_t> idx{"idx"};
    Array<std::int64_t> step_list{"step_list"}, time_list{"time_list"}, rl_list{"rl_list"};
    OriginColumns origin;
    Planes planes;

    explicit PointsTable(unsigned width) : Table(name_of(width)), planes(width) {
        attach({&run, &metric, &env_first, &step_first, &steps, &step_stride, &step_last, &rl_step, &time_ns, &dtype, &producer,
                &attempt, &idx, &step_list, &time_list, &rl_list});
        origin.attach(block);
        block.attach(planes);
    }
    static const char* name_of(unsigned width) {
        return width == 1 ? "points_w1" : width == 2 ? "points_w2" : width == 4 ? "points_w4" : "points_w8";
    }
};

struct LedgerTable : Table {
    Dictionary run{"run"}, metric{"metric"};
    Fixed<std::uint8_t> dtype{"dtype"};
    UuidColumn producer{"producer"};
    Fixed<std::uint32_t> attempt{"attempt"}, env_first{"env_first"}, env_count{"env_count"};
    Fixed<std::int64_t> step_first{"step_first"}, step_last{"step_last"};
    Fixed<std::uint64_t> points{"points"}, hash{"hash"}, when{"when_hash"};
    Array<std::uint32_t> env_list{"env_list"}, env_points{"env_points"};
    OriginColumns origin;

    LedgerTable() : Table("ledger") {
        attach({&run, &metric, &dtype, &producer, &attempt, &env_first, &env_count, &step_first, &step_last, &points, &hash, &when, &env_list,
                &env_points});
        origin.attach(block);
    }
};

struct EpisodesTable : Table {
    Dictionary run{"run"};
    UuidColumn producer{"producer"};
    Fixed<std::uint32_t> attempt{"attempt"}, env{"env"};
    Fixed<std::int64_t> episode{"episode"}, step_first{"step_first"}, step_last{"step_last"};
    Fixed<std::uint64_t> points_expected{"points_expected"};
    Fixed<double> ret{"ret"};
    Fixed<std::int64_t> length{"length"};
    OriginColumns origin;

    EpisodesTable() : Table("episodes") {
        attach({&run, &producer, &attempt, &env, &episode, &step_first, &step_last, &points_expected, &ret, &length});
        origin.attach(block);
    }
};

struct StatsTable : Table {
    Dictionary run{"run"}, metric{"metric"};
    Fixed<std::uint8_t> dtype{"dtype"};
    UuidColumn producer{"producer"};
    Fixed<std::uint32_t> attempt{"attempt"}, env_first{"env_first"}, env_count{"env_count"};
    Fixed<std::int64_t> step{"step"}, time_ns{"time_ns"};
    Fixed<std::uint64_t> count{"count"}, nonfinite{"nonfinite"};
    Fixed<double> min{"min"}, max{"max"}, sum{"sum"}, sum_squares{"sum_squares"};
    Array<std::uint16_t> bins{"bins"};
    Array<std::uint32_t> bin_counts{"bin_counts"};
    OriginColumns origin;

    StatsTable() : Table("stats") {
        attach({&run, &metric, &dtype, &producer, &attempt, &env_first, &env_count, &step, &time_ns, &count, &nonfinite, &min, &max,
                &sum, &sum_squares, &bins, &bin_counts});
        origin.attach(block);
    }
};

struct EventsTable : Table {
    Dictionary run{"run"};
    UuidColumn producer{"producer"};
    Fixed<std::uint32_t> attempt{"attempt"};
    Fixed<std::int64_t> time_ns{"time_ns"};
    Dictionary kind{"kind"};
    Text key{"key"}, text{"text"};
    OriginColumns origin;

    EventsTable() : Table("event_rows") {
        attach({&run, &producer, &attempt, &time_ns, &kind, &key, &text});
        origin.attach(block);
    }
};

struct ProducersTable : Table {
    Dictionary run{"run"}, project{"project"};
    UuidColumn producer{"producer"};
    Fixed<std::uint32_t> attempt{"attempt"};
    Fixed<std::int64_t> run_created_ns{"run_created_ns"};
    Fixed<std::uint8_t> what{"what"}, end{"end"};
    Fixed<std::uint64_t> number{"number"};
    Fixed<std::int64_t> time_ns{"time_ns"};
    Fixed<std::uint32_t> pid{"pid"}, declared{"declared"};
    Fixed<std::int64_t> fork_step{"fork_step"};
    Fixed<std::int32_t> exit_code{"exit_code"};
    Text role{"role"}, host{"host"}, labels{"labels"}, continues{"continues"}, name{"name"};
    UuidArray ring{"rings.ring"};
    Array<std::uint32_t> ring_block{"rings.block"};
    Array<std::uint64_t> records{"rings.records"}, points{"rings.points"}, dropped{"rings.dropped_points"},
        episodes{"rings.episodes"}, events{"rings.events"}, stats{"rings.stats"},
        episodes_hash{"rings.episodes_hash"}, events_hash{"rings.events_hash"}, stats_hash{"rings.stats_hash"};
    OriginColumns origin;

    ProducersTable() : Table("producer_rows") {
        attach({&run, &project, &producer, &attempt, &run_created_ns, &what, &end, &number, &time_ns, &pid, &declared, &fork_step, &exit_code,
                &role, &host, &labels, &continues, &name, &ring, &ring_block, &records, &points, &dropped, &episodes, &events, &stats,
                &episodes_hash, &events_hash, &stats_hash});
        origin.attach(block);
    }
};

struct GapsTable : Table {
    Dictionary run{"run"};
    UuidColumn producer{"producer"};
    Fixed<std::uint32_t> attempt{"attempt"};
    Fixed<std::int64_t> time_ns{"time_ns"};
    Fixed<std::uint32_t> layout{"block"};
    Fixed<std::int64_t> step_first{"step_first"}, step_last{"step_last"};
    Fixed<std::uint64_t> points{"points"};
    Dictionary reason{"reason"};
    UuidColumn spool{"spool"};
    Fixed<std::uint8_t> lane_known{"lane_known"};
    Fixed<std::uint64_t> start{"start"};
    Fixed<std::uint8_t> lane{"lane"};
    Fixed<std::uint64_t> seq_first{"seq_first"}, seq_last{"seq_last"};
    OriginColumns origin;

    GapsTable() : Table("gap_rows") {
        attach({&run, &producer, &attempt, &time_ns, &layout, &step_first, &step_last, &points, &reason, &spool, &lane_known, &start,
                &lane, &seq_first, &seq_last});
        origin.attach(block);
    }
};

struct StartsTable : Table {
    UuidColumn spool{"spool"};
    Fixed<std::uint64_t> start{"start"}, previous{"previous"}, previous_group{"previous_group"};
    Array<std::uint64_t> previous_seq{"previous_seq"};
    Text version{"version"}, host{"host"};
    OriginColumns origin;

    StartsTable() : Table("starts") {
        attach({&spool, &start, &previous, &previous_group, &previous_seq, &version, &host});
        origin.attach(block);
    }
};

struct ParcelsTable : Table {
    UuidColumn spool{"spool"};
    Fixed<std::uint64_t> start{"start"};
    Fixed<std::uint8_t> lane{"lane"};
    Fixed<std::uint64_t> seq{"seq"};
    Dictionary run{"run"};
    Fixed<std::uint64_t> group{"group_number"}, points{"points"}, xxh3{"xxh3"};
    Fixed<std::int64_t> created_ns{"created_ns"};
    Fixed<std::uint32_t> month{"month"};
    Fixed<std::uint64_t> batch{"batch"};

    ParcelsTable() : Table("parcels") {
        attach({&spool, &start, &lane, &seq, &run, &group, &points, &xxh3, &created_ns, &month, &batch});
    }
};

struct MonthTables {
    PointsTable w1{1}, w2{2}, w4{4}, w8{8};
    LedgerTable ledger;
    EpisodesTable episodes;
    StatsTable stats;
    EventsTable events;
    ProducersTable producers;
    GapsTable gaps;
    StartsTable starts;
    ParcelsTable parcels;

    std::array<Block*, 12> blocks() {
        return {&w1.block,     &w2.block,        &w4.block,   &w8.block,     &ledger.block, &episodes.block, &stats.block,
                &events.block, &producers.block, &gaps.block, &starts.block, &parcels.block};
    }
    PointsTable& points(unsigned width) { return width == 1 ? w1 : width == 2 ? w2 : width == 4 ? w4 : w8; }
    std::uint32_t month = 0;
};

}  // namespace tally::sink
