-- Views of database tallyman: what people ask. Made again whenever this text changes; a statement with {WIDTH} is repeated for
-- the widths 1, 2, 4 and 8. Names and columns are promised to scripts; only add.
-- FINAL: the same row inserted twice (another batch, another receiver) counts once.

-- One line per value, straight from the rows. env_first, step_first and step_last are there to be pruned by: conditions on them, on run
-- and on metric reach the table, conditions on env and step do not.
CREATE OR REPLACE VIEW tallyman.points_of_w{WIDTH} AS
SELECT
    run,
    metric,
    toUInt32(env_first + if(empty(idx), intDiv(i - 1, steps), idx[1 + intDiv(i - 1, steps)])) AS env,
    if(empty(step_list), step_first + ((i - 1) % steps) * step_stride, step_list[i]) AS step,
    if(empty(rl_list), rl_step, rl_list[i]) AS rl_step,
    fromUnixTimestamp64Nano(if(empty(time_list), time_ns, time_list[i]), 'UTC') AS time,
    {VALUE} AS value,
    {BITS} AS bits,
    CAST(dtype, 'Enum8(''f16'' = 1, ''bf16'' = 2, ''f32'' = 3, ''f64'' = 4, ''i8'' = 5, ''i16'' = 6, ''i32'' = 7, ''i64'' = 8, ''u8'' = 9, ''u16'' = 10, ''u32'' = 11, ''u64'' = 12, ''bool'' = 13)') AS dtype,
    producer,
    attempt,
    env_first,
    step_first,
    step_last
FROM tallyman.points_w{WIDTH} FINAL
ARRAY JOIN {JOIN}, arrayEnumerate(v.p0) AS i;

CREATE OR REPLACE VIEW tallyman.points_pruned AS
SELECT * FROM tallyman.points_of_w1
UNION ALL SELECT * FROM tallyman.points_of_w2
UNION ALL SELECT * FROM tallyman.points_of_w4
UNION ALL SELECT * FROM tallyman.points_of_w8;

CREATE OR REPLACE VIEW tallyman.points AS
SELECT run, metric, env, step, rl_step, time, value, bits, dtype, producer, attempt FROM tallyman.points_pruned;

-- All values of one series. A row of a dense frame reaches at most 63 environments beyond env_first, of a row list 4,095.
CREATE OR REPLACE VIEW tallyman.series AS
SELECT run, metric, env, step, rl_step, time, value, bits, dtype, producer, attempt
FROM tallyman.points_pruned
WHERE run = {run:String} AND metric = {metric:String} AND env = {env:UInt32}
    AND env_first <= {env:UInt32} AND env_first >= {env:UInt32} - least({env:UInt32}, 4095);

-- All environments of one metric between two steps, both included.
CREATE OR REPLACE VIEW tallyman.step_slice AS
SELECT run, metric, env, step, rl_step, time, value, bits, dtype, producer, attempt
FROM tallyman.points_pruned
WHERE run = {run:String} AND metric = {metric:String} AND step >= {lo:Int64} AND step <= {hi:Int64}
    AND step_first <= {hi:Int64} AND step_last >= {lo:Int64};

-- One line per (producer, attempt). valid_below: the lowest fork step among those of the same run and role opened later.
CREATE OR REPLACE VIEW tallyman.producer_states AS
WITH
    by_producer AS
    (
        SELECT
            run, producer,
            argMaxIf(role, number, role != '') AS role,
            argMaxIf(host, number, host != '') AS host,
            argMaxIf(pid, number, pid != 0) AS pid,
            argMaxIf(labels, number, labels != '') AS labels,
            argMinIf(continues, number, continues != '') AS continues,
            max(time_ns) AS last_ns,
            argMaxIf(time_ns, number, what = 3) AS closed_ns,
            countIf(what = 3) != 0 AND maxIf(number, what = 3) >= maxIf(number, what IN (1, 5)) AS is_closed,
            argMaxIf(end, number, what = 3) AS end,
            argMaxIf(exit_code, number, what = 3) AS exit_code,
            max(declared) AS declared
        FROM tallyman.producer_rows FINAL
        GROUP BY run, producer
    ),
    by_attempt AS
    (
        SELECT run, producer, attempt, minIf(time_ns, what IN (1, 2)) AS first_ns, min(time_ns) AS seen_ns,
            minIf(fork_step, what IN (1, 2)) AS fork_raw, countIf(what IN (1, 2)) AS openings
        FROM tallyman.producer_rows FINAL
        GROUP BY run, producer, attempt
    )
SELECT
    run, producer, attempt, role, host, pid, labels, continues,
    if(openings = 0, seen_ns, first_ns) AS opened_ns,
    if(openings = 0, 9223372036854775807, fork_raw) AS fork_step,
    last_ns, declared, is_closed,
    if(is_closed, closed_ns, NULL) AS closed_ns,
    if(is_closed, exit_code, NULL) AS exit_code,
    multiIf(is_closed AND end = 2, 'died', is_closed AND end = 3, 'lost', is_closed, 'finished',
        last_ns < toUnixTimestamp64Nano(now64(9)) - 600000000000, 'lost', 'open') AS state,
    ifNull(min(toNullable(fork_step)) OVER (PARTITION BY run, role ORDER BY opened_ns, producer, attempt
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 9223372036854775807) AS valid_below
FROM by_attempt INNER JOIN by_producer USING (run, producer);

CREATE OR REPLACE VIEW tallyman.producers AS
SELECT
    p.run AS run, p.producer AS producer, p.attempt AS attempt, role, host, pid, labels,
    fromUnixTimestamp64Nano(opened_ns, 'UTC') AS opened,
    fromUnixTimestamp64Nano(closed_ns, 'UTC') AS closed,
    state, exit_code, fork_step, continues, valid_below,
    ifNull(l.logged, 0) AS logged
FROM tallyman.producer_states AS p
LEFT JOIN (SELECT run, producer, attempt, sum(points) AS logged FROM tallyman.ledger FINAL GROUP BY run, producer, attempt) AS l
    USING (run, producer, attempt);

-- The points that no later attempt or resume has overtaken.
CREATE OR REPLACE VIEW tallyman.points_current AS
SELECT run, metric, env, step, rl_step, time, value, bits, dtype, producer, attempt
FROM tallyman.points
WHERE (run, producer, attempt) NOT IN
        (SELECT run, producer, attempt FROM tallyman.producer_states WHERE valid_below != 9223372036854775807)
UNION ALL
SELECT run, metric, env, step, rl_step, time, value, bits, dtype, producer, attempt
FROM tallyman.points INNER JOIN
    (SELECT run, producer, attempt, valid_below FROM tallyman.producer_states WHERE valid_below != 9223372036854775807) AS overtaken
    USING (run, producer, attempt)
WHERE step < valid_below;

CREATE OR REPLACE VIEW tallyman.runs AS
WITH
    config_keys AS
    (
        SELECT run, key, argMax(text, time_ns) AS text FROM tallyman.event_rows FINAL WHERE kind = 'config' GROUP BY run, key
    ),
    configs AS
    (
        SELECT run,
            anyIf(text, key = '') AS whole,
            arrayStringConcat(arraySort(groupArrayIf(concat(toJSONString(key), ':', if(isValidJSON(text), text, toJSONString(text))), key != '')), ',') AS extra,
            if(length(trimBoth(whole)) < 2, '{', substring(trimBoth(whole), 1, length(trimBoth(whole)) - 1)) AS opened
        FROM config_keys GROUP BY run
    ),
    states AS
    (
        SELECT run, multiIf(countIf(state = 'open') > 0, 'running', countIf(state = 'died' OR ifNull(exit_code, 0) != 0) > 0, 'failed',
                countIf(state = 'lost') > 0, 'lost', 'finished') AS state,
            min(opened_ns) AS opened_ns, max(closed_ns) AS closed_ns, max(last_ns) AS last_ns
        FROM tallyman.producer_states GROUP BY run
    ),
    names AS
    (
        SELECT run, argMinIf(project, time_ns, project != '') AS project, argMaxIf(name, time_ns, name != '') AS name,
            min(run_created_ns) AS created_ns
        FROM tallyman.producer_rows FINAL GROUP BY run
    )
SELECT
    s.run AS run, n.project AS project, if(n.name = '', s.run, n.name) AS name,
    if(c.run = '', '{}', concat(c.opened, if(c.extra != '' AND match(c.opened, '[^{\\s]'), ',', ''), c.extra, '}')) AS config,
    s.state AS state,
    fromUnixTimestamp64Nano(if(n.created_ns > 0, n.created_ns, s.opened_ns), 'UTC') AS started,
    if(s.state = 'running', NULL, fromUnixTimestamp64Nano(s.closed_ns, 'UTC')) AS ended,
    fromUnixTimestamp64Nano(s.last_ns, 'UTC') AS last_seen
FROM states AS s
LEFT JOIN names AS n ON s.run = n.run
LEFT JOIN configs AS c ON s.run = c.run;

CREATE OR REPLACE VIEW tallyman.episode_headers AS
SELECT run, env, episode, step_first, step_last, points_expected, ret AS `return`, length, producer, attempt
FROM tallyman.episodes FINAL;

-- Sums over environment ranges and producers, without what a later attempt has overtaken. Percentiles come from the histogram (relative
-- error 0.4 %) and are null where none was kept.
CREATE OR REPLACE VIEW tallyman.step_stats AS
WITH
    overtaken AS (SELECT run, producer, attempt, valid_below FROM tallyman.producer_states WHERE valid_below != 9223372036854775807),
    summed AS
    (
        SELECT s.run AS run, s.metric AS metric, s.step AS step, sum(s.count) AS count, sum(s.nonfinite) AS nonfinite, sum(s.sum) AS sum,
            minIf(s.min, s.count > s.nonfinite) AS lowest, maxIf(s.max, s.count > s.nonfinite) AS highest,
            sum(s.sum_squares) AS squares,
            sumMap(s.bins, arrayMap(c -> toUInt64(c), s.bin_counts)) AS histogram
        FROM (SELECT * FROM tallyman.stats FINAL) AS s
        LEFT JOIN overtaken AS o ON s.run = o.run AND s.producer = o.producer AND s.attempt = o.attempt
        WHERE o.run = '' OR s.step < o.valid_below
        GROUP BY s.run, s.metric, s.step
    )
SELECT
    run, metric, step, count, nonfinite, sum,
    if(count > nonfinite, lowest, NULL) AS min,
    if(count > nonfinite, highest, NULL) AS max,
    if(count > nonfinite, sum / (count - nonfinite), NULL) AS mean,
    if(count > nonfinite, sqrt(greatest(squares / (count - nonfinite) - pow(sum / (count - nonfinite), 2), 0)), NULL) AS std,
    -- bins in the order of their values: the sign bit turns the order of the negative ones
    arraySort((b, c) -> if(b >= 32768, 65535 - b, b + 32768), histogram.1, histogram.2) AS bins_sorted,
    arrayCumSum(arraySort((c, b) -> if(b >= 32768, 65535 - b, b + 32768), histogram.2, histogram.1)) AS cumulated,
    if(empty(bins_sorted), NULL, reinterpretAsFloat32(toUInt32(bitShiftLeft(toUInt32(bins_sorted[arrayFirstIndex(c -> c >= 0.05 * cumulated[-1], cumulated)]), 16) + 32768))) AS p05,
    if(empty(bins_sorted), NULL, reinterpretAsFloat32(toUInt32(bitShiftLeft(toUInt32(bins_sorted[arrayFirstIndex(c -> c >= 0.5 * cumulated[-1], cumulated)]), 16) + 32768))) AS p50,
    if(empty(bins_sorted), NULL, reinterpretAsFloat32(toUInt32(bitShiftLeft(toUInt32(bins_sorted[arrayFirstIndex(c -> c >= 0.95 * cumulated[-1], cumulated)]), 16) + 32768))) AS p95
FROM summed;

CREATE OR REPLACE VIEW tallyman.series_stats AS
SELECT run, metric, env, rl_step, count() AS count, countIf(NOT isFinite(value)) AS nonfinite,
    sumIf(value, isFinite(value)) AS sum, minIf(value, isFinite(value)) AS min, maxIf(value, isFinite(value)) AS max
FROM tallyman.points_current
GROUP BY run, metric, env, rl_step;

CREATE OR REPLACE VIEW tallyman.events AS
SELECT run, fromUnixTimestamp64Nano(time_ns, 'UTC') AS time, kind, key, text, producer, attempt
FROM tallyman.event_rows FINAL;

CREATE OR REPLACE VIEW tallyman.gaps AS
SELECT run, producer, block AS layout, step_first, step_last, points, reason, spool,
    if(lane_known, start, NULL) AS start, if(lane_known, lane, NULL) AS lane,
    if(lane_known, seq_first, NULL) AS seq_first, if(lane_known, seq_last, NULL) AS seq_last,
    fromUnixTimestamp64Nano(time_ns, 'UTC') AS time, attempt
FROM tallyman.gap_rows FINAL;
