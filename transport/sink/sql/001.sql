-- Schema 001 of database tallyman: the same on embedded ClickHouse and on a cluster (there Replicated... and Distributed).
-- One row of points_w* holds up to 64 values of one frame, E environments x T steps, in byte planes, item-major:
-- value i belongs to environment index intDiv(i, steps) and step index i % steps. Rows are a pure function of one
-- parcel (agent/parcel/FORMAT.md, "Rows"), so the key makes them once whoever inserts them.
-- idx: environment offsets from env_first, one per item, only for row-list frames (else empty).
-- step_list, time_list, rl_list: one per value, only for irregular scalars (else empty: step_first + i * step_stride, time, rl_step).
-- batch: which insert wrote the row; looked for after "no answer", never part of the key.
-- step_first and step_last are the lowest and highest step of the row's values: what views and proofs prune by.
-- Every table carries `month` (yyyymm of the run's creation) and is partitioned by it.
-- {SETTINGS}: inserts and merges are synced (a batch is done only when it survives power loss); merges stop at 1 GiB, because
-- merging is most of the cost per point.

CREATE DATABASE IF NOT EXISTS tallyman;

CREATE TABLE IF NOT EXISTS tallyman.points_w{WIDTH}
(
    run LowCardinality(String),
    metric LowCardinality(String),
    env_first UInt32 CODEC(Delta, ZSTD(1)),
    step_first Int64 CODEC(Delta, ZSTD(1)),
    origin_start UInt64 CODEC(ZSTD(1)),
    origin_lane UInt8,
    origin_seq UInt64 CODEC(Delta, ZSTD(1)),
    origin_row UInt32 CODEC(Delta, ZSTD(1)),
    month UInt32,
    steps UInt8,
    step_stride Int64 CODEC(ZSTD(1)),
    step_last Int64 CODEC(Delta, ZSTD(1)),
    rl_step Nullable(Int64) CODEC(ZSTD(1)),
    time_ns Int64 CODEC(Delta, ZSTD(1)),
    dtype UInt8,
    producer UUID CODEC(ZSTD(1)),
    attempt UInt32 CODEC(ZSTD(1)),
    batch UInt64 CODEC(ZSTD(1)),
    idx Array(UInt16) CODEC(ZSTD(1)),
    step_list Array(Int64) CODEC(Delta, ZSTD(1)),
    time_list Array(Int64) CODEC(Delta, ZSTD(1)),
    rl_list Array(Int64) CODEC(Delta, ZSTD(1)),
    v Nested({PLANES})
)
ENGINE = ReplacingMergeTree
PARTITION BY month
ORDER BY (run, metric, env_first, step_first, origin_start, origin_lane, origin_seq, origin_row)
SETTINGS {SETTINGS};
-- {WIDTH} = 1, 2, 4, 8; {PLANES} = p0 UInt8, p1 UInt8, ... one per byte, each CODEC(ZSTD(1))

CREATE TABLE IF NOT EXISTS tallyman.ledger
(
    run LowCardinality(String), metric LowCardinality(String), dtype UInt8, producer UUID, attempt UInt32,
    env_first UInt32, env_count UInt32, step_first Int64, step_last Int64, points UInt64, hash UInt64, when_hash UInt64,
    env_list Array(UInt32), env_points Array(UInt32),
    origin_start UInt64, origin_lane UInt8, origin_seq UInt64, origin_row UInt32, month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (run, metric, env_first, step_first, origin_start, origin_lane, origin_seq, origin_row)
SETTINGS {SETTINGS};

CREATE TABLE IF NOT EXISTS tallyman.episodes
(
    run LowCardinality(String), producer UUID, attempt UInt32, env UInt32, episode Int64, step_first Int64, step_last Int64,
    points_expected UInt64, ret Float64, length Int64,
    origin_start UInt64, origin_lane UInt8, origin_seq UInt64, origin_row UInt32, month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (run, env, episode, origin_start, origin_lane, origin_seq, origin_row)
SETTINGS {SETTINGS};

CREATE TABLE IF NOT EXISTS tallyman.stats
(
    run LowCardinality(String), metric LowCardinality(String), dtype UInt8, producer UUID, attempt UInt32,
    env_first UInt32, env_count UInt32, step Int64, time_ns Int64, count UInt64, nonfinite UInt64,
    min Float64, max Float64, sum Float64, sum_squares Float64, bins Array(UInt16), bin_counts Array(UInt32),
    origin_start UInt64, origin_lane UInt8, origin_seq UInt64, origin_row UInt32, month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (run, metric, step, env_first, origin_start, origin_lane, origin_seq, origin_row)
SETTINGS {SETTINGS};

CREATE TABLE IF NOT EXISTS tallyman.event_rows
(
    run LowCardinality(String), producer UUID, attempt UInt32, time_ns Int64, kind LowCardinality(String), key String, text String,
    origin_start UInt64, origin_lane UInt8, origin_seq UInt64, origin_row UInt32, month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (run, time_ns, kind, origin_start, origin_lane, origin_seq, origin_row)
SETTINGS {SETTINGS};

CREATE TABLE IF NOT EXISTS tallyman.producer_rows
(
    run LowCardinality(String), project LowCardinality(String), producer UUID, attempt UInt32, run_created_ns Int64,
    what UInt8, end UInt8, number UInt64, time_ns Int64, pid UInt32, declared UInt32, fork_step Int64, exit_code Int32, role String, host String,
    labels String, continues String, name String,
    rings Nested(ring UUID, block UInt32, records UInt64, points UInt64, dropped_points UInt64, episodes UInt64, events UInt64, stats UInt64,
        episodes_hash UInt64, events_hash UInt64, stats_hash UInt64),
    origin_start UInt64, origin_lane UInt8, origin_seq UInt64, origin_row UInt32, month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (run, producer, number, origin_start, origin_lane, origin_seq, origin_row)
SETTINGS {SETTINGS};

CREATE TABLE IF NOT EXISTS tallyman.gap_rows
(
    run LowCardinality(String), producer UUID, attempt UInt32, time_ns Int64, block UInt32, step_first Int64, step_last Int64,
    points UInt64, reason LowCardinality(String), spool UUID, lane_known UInt8, start UInt64, lane UInt8, seq_first UInt64, seq_last UInt64,
    origin_start UInt64, origin_lane UInt8, origin_seq UInt64, origin_row UInt32, month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (run, producer, step_first, origin_start, origin_lane, origin_seq, origin_row)
SETTINGS {SETTINGS};

-- Rows per start, one for each earlier life it tells of (previous = 0: there was none): where their sequences end.
CREATE TABLE IF NOT EXISTS tallyman.starts
(
    spool UUID, start UInt64, previous UInt64, previous_group UInt64, previous_seq Array(UInt64), version String, host String,
    origin_start UInt64, origin_lane UInt8, origin_seq UInt64, origin_row UInt32, month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (spool, start, previous, origin_seq, origin_row)
SETTINGS {SETTINGS};

-- One row per stored parcel and run in it: what the transport layer of reconcile counts.
CREATE TABLE IF NOT EXISTS tallyman.parcels
(
    spool UUID, start UInt64, lane UInt8, seq UInt64, run LowCardinality(String), group_number UInt64, points UInt64, xxh3 UInt64, created_ns Int64,
    month UInt32, batch UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY month
ORDER BY (spool, start, lane, seq, run)
SETTINGS {SETTINGS};
