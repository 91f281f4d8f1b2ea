// SPDX-License-Identifier: Apache-2.0
#include "config/files.hpp"

#include "agent/base/fd.hpp"

namespace tally::config {

namespace {

constexpr std::uint64_t MiB = 1ULL << 20;
constexpr std::uint64_t GiB = 1ULL << 30;
constexpr std::uint64_t TiB = 1ULL << 40;
constexpr std::int64_t ms = 1'000'000;

void spool_keys(Schema& s, const std::string& section, spool::Options& o) {
    s.text(section + ".dir", o.dir, "directory of its files; one process at a time");
    s.required(section + ".dir");
    s.bytes(section + ".budget", o.budget_bytes, 64 * MiB, 1024 * TiB, "all its files together; full means backpressure, not loss");
    s.bytes(section + ".reserve_free", o.reserve_free_bytes, 0, 1024 * TiB, "free space of the file system that it never uses");
    s.bytes(section + ".segment_max", o.segment_bytes_max, 1 * MiB, 256 * MiB, "largest segment; larger means fewer files");
    s.choice(section + ".engine", {{"auto", 0}, {"io_uring", 1}, {"pwritev2", 2}},
             [&o](int v) { o.engine = static_cast<spool::Engine>(v); }, [&o] { return static_cast<int>(o.engine); },
             "how it writes; auto takes io_uring where the kernel allows it");
}

// Checks that span keys.
void check_spool(const Schema& s, const std::string& file, const std::string& section, const spool::Options& o,
                 std::vector<Problem>& problems) {
    if (o.budget_bytes < 8 * o.segment_bytes_max)
        problems.push_back({file, s.line_of(section + ".budget"), section + ".budget", "must be at least 8 x segment_max, else it could not even turn over"});
}

}  // namespace

Schema agent_schema(AgentConfig& c) {
    Schema s;
    s.text("agent.socket", c.ring.socket, "where trainers attach");
    s.bytes("ring.user_bytes_max", c.ring.user_bytes_max, 0, 16 * TiB, "rings of one user together; 0 = total_bytes_max");
    s.bytes("ring.total_bytes_max", c.ring.total_bytes_max, 0, 16 * TiB, "all rings together; 0 = 1/8 of the memory");
    s.duration("ring.poll_busy", c.ring.poll_busy_ns, ms / 10, 1000 * ms, "how often rings are looked at while records flow");
    s.duration("ring.poll_idle", c.ring.poll_idle_ns, ms, 1000 * ms, "how often while they trickle");
    s.bytes("intake.parcel_target", c.intake.parcel_bytes_target, 64 << 10, 4 * MiB, "encoded size at which a parcel is closed");
    s.duration("intake.commit_interval", c.intake.batch_interval_ns, ms, 10'000 * ms, "age at which a batch is committed");
    s.flag("intake.histogram", c.intake.histogram, "histograms in step statistics; about 1 ns a point");
    spool_keys(s, "spool", c.spool);
    s.text("uplink.endpoint", c.uplink.endpoint, "the receiver: wss://host:port, or ws:// on loopback");
    s.text("uplink.token_file", c.uplink.token_file, "file with the ingest token, mode 0640 or stricter");
    s.required("uplink.token_file");
    s.text("uplink.ca_file", c.uplink.ca_file, "certificates to trust instead of the system's");
    s.flag("uplink.allow_plaintext", c.uplink.allow_plaintext, "permit ws:// to another host: the token and the data are readable on the way");
    s.integer("uplink.sessions", c.uplink.sessions, 2, 64, "connections: one live, the rest bulk");
    s.bytes("uplink.window", c.uplink.window_bytes, 1 * MiB, 16 * GiB, "bulk in memory until acknowledged");
    return s;
}

Schema receiver_schema(ReceiverConfig& c) {
    Schema s;
    s.text("receiver.listen", c.receiver.listen, "address:port");
    s.text("receiver.token_file", c.receiver.token_file, "file with the ingest token, mode 0640 or stricter");
    s.required("receiver.token_file");
    s.text("receiver.read_token_file", c.receiver.read_token_file, "file with the read token; default: read.token in the landing, made at first start");
    s.flag("receiver.insecure", c.receiver.insecure, "no TLS; on loopback only");
    s.flag("receiver.allow_plaintext", c.receiver.allow_plaintext, "permit insecure beyond loopback");
    s.text("receiver.cert_file", c.receiver.cert_file, "certificate chain (PEM)");
    s.text("receiver.key_file", c.receiver.key_file, "private key (PEM)");
    s.integer("receiver.max_sessions", c.receiver.max_sessions, 1, 1'000'000, "more are answered 429");
    s.choice("receiver.ack", {{"received", 0}, {"stored", 1}}, [&c](int v) { c.receiver.ack = static_cast<receiver::AckLevel>(v); },
             [&c] { return static_cast<int>(c.receiver.ack); }, "when hosts may forget: synced here, or in the store");
    spool_keys(s, "landing", c.landing);
    s.choice("sink.kind", {{"none", 0}, {"chdb", 1}, {"clickhouse", 2}, {"kafka", 3}},
             [&c](int v) { c.sink.kind = static_cast<sink::Kind>(v); }, [&c] { return static_cast<int>(c.sink.kind); },
             "where points go; none keeps everything in the landing");
    s.text("sink.dir", c.sink.dir, "directory of the embedded store");
    s.text("sink.library", c.sink.library, "libchdb.so; default: $TALLYMAN_CHDB, system library path, build/deps");
    s.duration("sink.cut_interval", c.sink.cut_interval_ns, 100 * ms, 60'000 * ms, "age at which a batch is inserted");
    s.integer("sink.cut_points", c.sink.cut_points, 1000, 1ULL << 30, "points at which a batch is inserted");
    return s;
}

std::vector<Problem> load_agent(const std::string& file, AgentConfig& c) {
    Schema s = agent_schema(c);
    auto problems = s.load(file);
    if (problems.empty()) check_spool(s, file, "spool", c.spool, problems);
    return problems;
}

std::vector<Problem> load_receiver(const std::string& file, ReceiverConfig& c) {
    Schema s = receiver_schema(c);
    auto problems = s.load(file);
    if (!problems.empty()) return problems;
    check_spool(s, file, "landing", c.landing, problems);
    if (c.sink.kind == sink::Kind::chdb && c.sink.dir.empty())
        problems.push_back({file, s.line_of("sink.kind"), "sink.dir", "is needed for kind = \"chdb\""});
    if (c.sink.kind == sink::Kind::clickhouse || c.sink.kind == sink::Kind::kafka)
        problems.push_back({file, s.line_of("sink.kind"), "sink.kind", "this build has \"chdb\" and \"none\""});
    c.sink.landing_dir = c.landing.dir;
    return problems;
}

bool looks_like_receiver(const std::string& file) {
    const auto content = read_file(file, 1U << 20);
    return content && as_text(*content).find("[receiver]") != std::string_view::npos;
}

}  // namespace tally::config
