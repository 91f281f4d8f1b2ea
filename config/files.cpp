// SPDX-License-Identifier: Apache-2.0
//
// What  The keys of both files, and the rules that span keys.
#include "config/files.hpp"

#include <filesystem>

#include "agent/base/fd.hpp"

namespace tally::config {

namespace {

constexpr std::uint64_t MiB = 1ULL << 20;
constexpr std::uint64_t GiB = 1ULL << 30;
constexpr std::uint64_t TiB = 1ULL << 40;
constexpr std::int64_t ms = 1'000'000;

void log_keys(Schema& s, LogConfig& o) {
    s.section("log", "Lines go to journald with their fields where it is the daemon's stderr, else to stderr as text");
    s.choice("log.level", {{"debug", 0}, {"info", 1}, {"warn", 2}, {"error", 3}}, [&o](int v) { o.level = static_cast<LogLevel>(v); },
             [&o] { return static_cast<int>(o.level); }, "what is written; one event at most 10 times in 10 s, the rest is counted");
    s.reloadable("log.level");
}

void spool_keys(Schema& s, const std::string& section, spool::Options& o) {
    s.text(section + ".dir", o.dir, "directory of its files; one process at a time, on a local disk");
    s.required(section + ".dir");
    s.bytes(section + ".budget", o.budget_bytes, 64 * MiB, 1024 * TiB, "all its files together; full means backpressure, not loss");
    s.bytes(section + ".reserve_free", o.reserve_free_bytes, 0, 1024 * TiB, "free space of the file system that it never uses");
    s.bytes(section + ".segment_max", o.segment_bytes_max, 1 * MiB, 256 * MiB, "largest segment; larger means fewer files");
    s.choice(section + ".engine", {{"auto", 0}, {"io_uring", 1}, {"pwritev2", 2}},
             [&o](int v) { o.engine = static_cast<spool::Engine>(v); }, [&o] { return static_cast<int>(o.engine); },
             "how it writes; auto takes io_uring where the kernel allows it");
}

// Checks that span keys.
void check_spool(const Schema& s, const std::string& section, const spool::Options& o, std::vector<Problem>& problems) {
    if (o.budget_bytes < 8 * o.segment_bytes_max)
        problems.push_back(s.problem(section + ".budget", "must be at least 8 x segment_max, else it could not even turn over"));
}

bool inside(const std::string& path, const std::string& dir) {
    const auto p = std::filesystem::path(path).lexically_normal();
    const auto d = std::filesystem::path(dir).lexically_normal();
    const auto relative = p.lexically_relative(d);
    return !relative.empty() && *relative.begin() != "..";
}

// host of scheme://host:port; the uplink itself checks the rest when it opens.
bool to_loopback(const std::string& endpoint) {
    const std::string host = endpoint.substr(std::min(endpoint.find("://") + 3, endpoint.size()));
    return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

void check_agent(const Schema& s, const AgentConfig& c, std::vector<Problem>& problems) {
    check_spool(s, "spool", c.spool, problems);
    if (c.ring.poll_busy_ns > c.ring.poll_idle_ns)
        problems.push_back(s.problem("ring.poll_busy", "must not be longer than poll_idle: rings are looked at more often while records flow"));
    if (c.ring.total_bytes_max != 0 && c.ring.user_bytes_max > c.ring.total_bytes_max)
        problems.push_back(s.problem("ring.user_bytes_max", "must not exceed total_bytes_max"));
    if (c.uplink.window_bytes < c.uplink.sessions * c.intake.parcel_bytes_target)
        problems.push_back(s.problem("uplink.window", "must hold at least one parcel a session: sessions x [intake] parcel_target"));
    const std::string& e = c.uplink.endpoint;
    if (!e.starts_with("ws://") && !e.starts_with("wss://")) {
        problems.push_back(s.problem("uplink.endpoint", "must begin with wss:// (or ws:// on loopback), such as \"wss://receiver.example:7411\""));
    } else if (e.starts_with("ws://") && !to_loopback(e) && !c.uplink.allow_plaintext) {
        problems.push_back(s.problem("uplink.endpoint", "ws:// to another host sends token and data in the clear; use wss://, or allow_plaintext = true beside it"));
    }
}

void check_receiver(const Schema& s, const ReceiverConfig& c, std::vector<Problem>& problems) {
    check_spool(s, "landing", c.landing, problems);
    if (c.receiver.insecure && (!c.receiver.cert_file.empty() || !c.receiver.key_file.empty()))
        problems.push_back(s.problem("receiver.insecure", "contradicts cert_file and key_file; remove one or the other"));
    if (!c.receiver.insecure && (c.receiver.cert_file.empty() || c.receiver.key_file.empty()))
        problems.push_back(s.problem(c.receiver.cert_file.empty() ? "receiver.cert_file" : "receiver.key_file",
                                     "is needed for TLS; or insecure = true on loopback"));
    if (c.receiver.listen.find(':') == std::string::npos)
        problems.push_back(s.problem("receiver.listen", "must be address:port, such as \"0.0.0.0:7411\""));
    if (c.sink.kind == sink::Kind::chdb && c.sink.dir.empty())
        problems.push_back(s.problem("sink.dir", "is needed for kind = \"chdb\""));
    if (!c.sink.dir.empty() && (inside(c.sink.dir, c.landing.dir) || inside(c.landing.dir, c.sink.dir)))
        problems.push_back(s.problem("sink.dir", "must lie outside [landing] dir, and not around it"));
    if (c.sink.kind == sink::Kind::clickhouse || c.sink.kind == sink::Kind::kafka)
        problems.push_back(s.problem("sink.kind", "this build has \"chdb\" and \"none\""));
}

}  // namespace

Schema agent_schema(AgentConfig& c) {
    Schema s;
    log_keys(s, c.log);
    s.section("agent", "The door for trainers of this host");
    s.text("agent.socket", c.ring.socket, "where trainers attach; under systemd the .socket unit decides and must agree");
    s.section("ring", "Shared memory between trainers and the agent");
    s.bytes("ring.user_bytes_max", c.ring.user_bytes_max, 0, 16 * TiB, "rings of one user together; 0 = total_bytes_max");
    s.bytes("ring.total_bytes_max", c.ring.total_bytes_max, 0, 16 * TiB, "all rings together; 0 = 1/8 of the memory");
    s.duration("ring.poll_busy", c.ring.poll_busy_ns, ms / 10, 1000 * ms, "how often rings are looked at while records flow");
    s.duration("ring.poll_idle", c.ring.poll_idle_ns, ms, 1000 * ms, "how often while they trickle");
    s.section("intake", "Where records become parcels");
    s.bytes("intake.parcel_target", c.intake.parcel_bytes_target, 64 << 10, 4 * MiB, "encoded size at which a parcel is closed");
    s.duration("intake.commit_interval", c.intake.batch_interval_ns, ms, 10'000 * ms, "age at which a batch is committed");
    s.flag("intake.histogram", c.intake.histogram, "histograms in step statistics; about 1 ns a point");
    s.section("spool", "What is durable on this host; survives crashes and days offline");
    spool_keys(s, "spool", c.spool);
    s.example("spool.dir", "\"/var/lib/tallyman/spool\"");
    s.section("uplink", "The way to the receiver");
    s.text("uplink.endpoint", c.uplink.endpoint, "the receiver: wss://host:port, or ws:// on loopback");
    s.example("uplink.endpoint", "\"ws://127.0.0.1:7411\"");
    s.secret("uplink.token_file", c.uplink.token_file, "token", "file with the ingest token, mode 0640 or stricter; read again at every connect");
    s.required("uplink.token_file");
    s.example("uplink.token_file", "\"/etc/tallyman/token\"");
    s.text("uplink.ca_file", c.uplink.ca_file, "certificates to trust instead of the system's");
    s.flag("uplink.allow_plaintext", c.uplink.allow_plaintext, "permit ws:// to another host: the token and the data are readable on the way");
    s.integer("uplink.sessions", c.uplink.sessions, 2, 64, "connections: one live, the rest bulk");
    s.bytes("uplink.window", c.uplink.window_bytes, 1 * MiB, 16 * GiB, "bulk in memory until acknowledged");
    return s;
}

Schema receiver_schema(ReceiverConfig& c) {
    Schema s;
    log_keys(s, c.log);
    s.section("receiver", "The port that agents and readers dial");
    s.text("receiver.listen", c.receiver.listen, "address:port");
    s.secret("receiver.token_file", c.receiver.token_file, "token", "file with the ingest token, mode 0640 or stricter");
    s.required("receiver.token_file");
    s.example("receiver.token_file", "\"/etc/tallyman/token\"");
    s.secret("receiver.read_token_file", c.receiver.read_token_file, "read-token", "file with the read token; default: read.token in the landing, made at first start");
    s.flag("receiver.insecure", c.receiver.insecure, "no TLS; on loopback only");
    s.flag("receiver.allow_plaintext", c.receiver.allow_plaintext, "permit insecure beyond loopback");
    s.example("receiver.insecure", "true");
    s.secret("receiver.cert_file", c.receiver.cert_file, "cert", "certificate chain (PEM)");
    s.secret("receiver.key_file", c.receiver.key_file, "key", "private key (PEM)");
    for (const char* key : {"receiver.token_file", "receiver.read_token_file", "receiver.cert_file", "receiver.key_file"}) s.reloadable(key);
    s.integer("receiver.max_sessions", c.receiver.max_sessions, 1, 1'000'000, "more are answered 429");
    s.choice("receiver.ack", {{"received", 0}, {"stored", 1}}, [&c](int v) { c.receiver.ack = static_cast<receiver::AckLevel>(v); },
             [&c] { return static_cast<int>(c.receiver.ack); }, "when hosts may forget: synced here, or in the store");
    s.section("landing", "What is acknowledged and durable here, before and beside the store");
    spool_keys(s, "landing", c.landing);
    s.example("landing.dir", "\"/var/lib/tallyman/landing\"");
    s.section("sink", "Where points become rows");
    s.choice("sink.kind", {{"none", 0}, {"chdb", 1}, {"clickhouse", 2}, {"kafka", 3}},
             [&c](int v) { c.sink.kind = static_cast<sink::Kind>(v); }, [&c] { return static_cast<int>(c.sink.kind); },
             "where points go; none keeps everything in the landing");
    s.example("sink.kind", "\"chdb\"");
    s.text("sink.dir", c.sink.dir, "directory of the embedded store; needed for chdb");
    s.example("sink.dir", "\"/var/lib/tallyman/store\"");
    s.text("sink.library", c.sink.library, "libchdb.so; default: $TALLYMAN_CHDB, system library path, build/deps");
    s.duration("sink.cut_interval", c.sink.cut_interval_ns, 100 * ms, 60'000 * ms, "age at which a batch is inserted");
    s.integer("sink.cut_points", c.sink.cut_points, 1000, 1ULL << 30, "points at which a batch is inserted");
    return s;
}

std::vector<Problem> load_agent(const std::string& file, AgentConfig& c) {
    Schema s = agent_schema(c);
    auto problems = s.load(file);
    if (problems.empty()) check_agent(s, c, problems);
    return problems;
}

std::vector<Problem> load_receiver(const std::string& file, ReceiverConfig& c) {
    Schema s = receiver_schema(c);
    auto problems = s.load(file);
    if (problems.empty()) check_receiver(s, c, problems);
    c.sink.landing_dir = c.landing.dir;
    return problems;
}

bool looks_like_receiver(const std::string& file) {
    const auto content = read_file(file, 1U << 20);
    return content && as_text(*content).find("[receiver]") != std::string_view::npos;
}

std::vector<Change> compare(const Schema& before, const Schema& after) {
    std::vector<Change> out;
    const auto old_values = before.values();
    const auto new_values = after.values();
    for (std::size_t i = 0; i < old_values.size() && i < new_values.size(); ++i)
        if (old_values[i].text != new_values[i].text)
            out.push_back({new_values[i].path, old_values[i].text, new_values[i].text, new_values[i].reloadable});
    return out;
}

std::vector<std::pair<std::string, std::string>> generated_files() {
    AgentConfig agent;
    ReceiverConfig receiver;
    const Schema a = agent_schema(agent);
    const Schema r = receiver_schema(receiver);
    return {{"agent.toml", a.example_file("Settings of `tallyman agent`, the daemon beside the trainers. Check with: tallyman check FILE [--probe]")},
            {"receiver.toml", r.example_file("Settings of `tallyman receiver`, the far end. Check with: tallyman check FILE [--probe]")},
            {"KEYS.md", "# Every key\n\nMade by `tallyman config reference --write config`; a test compares. Keys with * are applied by a reload (SIGHUP),\n"
                        "the others by a restart. Sizes are written \"64MiB\", durations \"50ms\", rates \"20Mbit/s\".\n\n## agent.toml\n" +
                            a.markdown() + "\n## receiver.toml\n" + r.markdown()}};
}

}  // namespace tally::config
