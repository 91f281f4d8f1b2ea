// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/probe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "agent/app/runtime.hpp"
#include "agent/app/version.hpp"
#include "agent/base/clock.hpp"
#include "agent/base/fd.hpp"
#include "agent/base/types.hpp"
#include "agent/base/units.hpp"
#include "transport/receiver/tokens.hpp"
#include "transport/sink/chdb.hpp"
#include "transport/uplink/uplink.hpp"

namespace tally::tools {

namespace {

constexpr std::size_t probe_bytes = 1U << 20;
constexpr std::int64_t dial_patience_ns = 10'000'000'000;

// The nearest folder that exists: a spool's own is made at the first start.
std::string existing(const std::string& dir) {
    std::filesystem::path p(dir);
    std::error_code ec;
    while (p.has_relative_path() && !std::filesystem::exists(p, ec)) p = p.parent_path();
    return p.string();
}

Finding token_finding(const std::string& name, const std::string& file) {
    const auto token = receiver::load_token(file);
    if (token) return {name, Verdict::ok, file, ""};
    return {name, Verdict::broken, file + ": " + token.error().text(), "make the file, readable by the service's user only: a token of 8 characters or more"};
}

}  // namespace

Finding probe_disk(const std::string& name, const std::string& dir) {
    const std::string where = existing(dir);
    const int fd = ::open(where.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return {name, Verdict::broken, dir + ": " + fail_errno("cannot write there").error().text(), "let the service's user own the folder"};
    const Fd file(fd);
    const Bytes bytes(probe_bytes, 0x5A);
    const std::int64_t began = monotonic_ns();
    auto written = write_all(file.get(), bytes);
    if (written && ::fdatasync(file.get()) != 0) written = fail_errno("fdatasync");
    if (!written) return {name, Verdict::broken, dir + ": " + written.error().text(), "free space on that file system, or choose another"};
    char took[32];
    std::snprintf(took, sizeof took, "%.1f ms", static_cast<double>(monotonic_ns() - began) / 1e6);
    return {name, Verdict::ok, dir + ": 1 MiB written and synced in " + took, ""};
}

Finding probe_endpoint(const uplink::Options& options) {
    uplink::Queues queues;
    auto up = uplink::Uplink::open(options, {Uuid::random(), StartId{random_u64()}, {}, app::host_name(), app::version}, queues);
    if (!up) return {"receiver", Verdict::broken, options.endpoint + ": " + up.error().text(), "correct [uplink] in the configuration"};
    std::thread net([&] { (*up)->run(); });
    uplink::Stats stats;
    const std::int64_t until = monotonic_ns() + dial_patience_ns;
    do {
        ::usleep(50'000);
        stats = (*up)->stats();
    } while (monotonic_ns() < until && stats.state != uplink::State::up && stats.state != uplink::State::denied &&
             stats.state != uplink::State::misconfigured);
    (*up)->stop();
    net.join();
    // Its destructor would wait for a resolver that hangs; the command ends soon.
    [[maybe_unused]] auto* kept = up->release();
    if (stats.state == uplink::State::up) return {"receiver", Verdict::ok, options.endpoint + ": welcomed", ""};
    const std::string why = stats.last_error.empty() ? "no answer within 10 s" : stats.last_error;
    std::string todo = "is the receiver running, and does a firewall, proxy or DNS stand between?";
    if (stats.state == uplink::State::denied) todo = "give this host the receiver's ingest token in [uplink] token_file";
    if (stats.state == uplink::State::misconfigured) todo = "the address answers, but not as a tallyman receiver: check [uplink] endpoint";
    return {"receiver", Verdict::broken, options.endpoint + ": " + uplink::state_name(stats.state) + ": " + why, todo};
}

Findings probe(const config::AgentConfig& config) {
    return {probe_disk("spool", config.spool.dir), token_finding("token", config.uplink.token_file), probe_endpoint(config.uplink)};
}

Findings probe(const config::ReceiverConfig& config) {
    Findings out{probe_disk("landing", config.landing.dir), token_finding("token", config.receiver.token_file)};
    if (config.sink.kind == sink::Kind::chdb) {
        out.push_back(probe_disk("store", config.sink.dir));
        const std::string library = sink::find_chdb(config.sink.library);
        out.push_back({"engine", library.empty() ? Verdict::degraded : Verdict::ok, library.empty() ? "libchdb.so not found" : library,
                       library.empty() ? "install it or set [sink] library; until then the landing keeps everything" : ""});
    }
    return out;
}

}  // namespace tally::tools
