// What    Every SQL statement of the page. 64-bit integers are asked for as text where a double would round them.

export const runs = `
SELECT r.run, r.project, r.state, l.points, formatDateTime(r.started, '%F %T'), formatDateTime(r.last_seen, '%F %T')
FROM tallyman.runs AS r LEFT JOIN (SELECT run, sum(points) AS points FROM tallyman.ledger FINAL GROUP BY run) AS l ON r.run = l.run
ORDER BY r.started DESC LIMIT 5000`;

export const agents = `
SELECT argMax(host, start), toString(spool), uniqExact(start), argMax(version, start)
FROM tallyman.starts FINAL GROUP BY spool ORDER BY 1 LIMIT 1000`;

export const metricsOf = `
SELECT metric, sum(points), min(step_first), max(step_last), max(env_first + env_count) FROM tallyman.ledger FINAL
WHERE run = {run:String} GROUP BY metric ORDER BY metric LIMIT 20000`;

export const producersOf = `
SELECT toString(producer), attempt, role, host, pid, state, logged FROM tallyman.producers WHERE run = {run:String} ORDER BY opened LIMIT 1000`;

export const gapsOf = `
SELECT reason, count(), sum(points), min(step_first), max(step_last) FROM tallyman.gaps WHERE run = {run:String} GROUP BY reason ORDER BY reason`;

export const eventsOf = `
SELECT formatDateTime(time, '%F %T'), kind, key, substring(text, 1, 400) FROM tallyman.events WHERE run = {run:String} ORDER BY time DESC LIMIT 100`;

// One line per bucket of steps: what a curve of that width can show.
export const curve = `
SELECT {lo:Int64} + intDiv(step - {lo:Int64}, {width:Int64}) * {width:Int64} AS at,
    if(isFinite(sum(s.sum) / sum(count - nonfinite) AS m), m, NULL), min(s.min), max(s.max), sum(nonfinite)
FROM tallyman.step_stats AS s
WHERE run = {run:String} AND metric = {metric:String} AND step >= {lo:Int64} AND step <= {hi:Int64}
GROUP BY at ORDER BY at`;

export const heat = `
SELECT intDiv(env, {env_width:UInt32}) AS e, intDiv(step - {lo:Int64}, {width:Int64}) AS s, avgIf(value, isFinite(value)) AS mean, countIf(NOT isFinite(value))
FROM tallyman.step_slice(run = {run:String}, metric = {metric:String}, lo = {lo:Int64}, hi = {hi:Int64})
GROUP BY e, s`;

export const trace = `
SELECT step, if(isFinite(value), value, NULL), toString(value), toString(bits), dtype
FROM tallyman.series(run = {run:String}, metric = {metric:String}, env = {env:UInt32})
WHERE step >= {lo:Int64} AND step <= {hi:Int64} ORDER BY step, time LIMIT 20000`;
