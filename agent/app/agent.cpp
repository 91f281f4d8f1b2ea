// SPDX-License-Identifier: Apache-2.0
#include "agent/app/agent.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include <nlohmann/json.hpp>

#include "agent/app/disk_role.hpp"
#include "agent/app/reload.hpp"
#include "agent/app/runtime.hpp"
#include "agent/app/service.hpp"
#include "agent/app/version.hpp"
#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"
#include "agent/base/units.hpp"
#include "config/files.hpp"

namespace tally::app {

namespace {

using nlohmann::json;
constexpr int serve_wait_ms = 500;
constexpr std::int64_t status_interval_ns = 5'000'000'000;
constexpr std::size_t batches_max = 8;  // of at most a few MiB each: what waits for the disk

parcel::StartSection start_section(const spool::Spool& spool) {
    parcel::StartSection s;
    s.version = version;
    s.host = host_name();
    const auto& ended = spool.ended_starts();
    const std::size_t skip = ended.size() > parcel::StartSection::ended_max ? ended.size() - parcel::StartSection::ended_max : 0;
    for (std::size_t i = skip; i < ended.size(); ++i) {
        const spool::EndedStart& e = ended[i];
        s.ended.push_back({StartId{e.start}, e.group, {e.seq[0], e.seq[1], e.seq[2]}});
    }
    return s;
}

class Agent {
public:
    Agent(config::AgentConfig config, std::string config_file) : config_(std::move(config)), config_file_(std::move(config_file)) {}

    int open() {
        Passed passed = take_passed();
        auto spool = spool::Spool::open(config_.spool);
        if (!spool) return report("spool " + config_.spool.dir, spool.error());
        spool_ = std::move(*spool);
        auto intake = std::make_unique<intake::Intake>(config_.intake);
        for (const auto& [key, value] : spool_->cursors())
            if (auto ok = intake->restore(key, value); !ok) log_warn("agent.cursor", {{"error", ok.error()}});
        intake->start(start_section(*spool_));

        uplink::SpoolInfo info{spool_->uuid(), spool_->start(), spool_->kept(), host_name(), version};
        queues_.wake_disk = [this] { wake_disk_(); };
        auto up = uplink::Uplink::open(config_.uplink, std::move(info), queues_);
        if (!up) return report("uplink", up.error()), 2;
        uplink_ = std::move(*up);
        auto server = passed.attach ? ring::AttachServer::adopt(std::move(passed.attach), config_.ring) : ring::AttachServer::open(config_.ring.socket, config_.ring);
        if (!server) return report("socket " + config_.ring.socket, server.error());
        ring_role_.emplace(config_.ring, std::move(*server), std::move(intake), batches_, losses_, reached_, wake_ring_.fd(),
                           [this] { wake_disk_(); }, [this] { uplink_->flush_store(); });
        ring_role_->restore(std::move(passed.rings));
        disk_role_.emplace(*spool_, batches_, losses_, queues_, reached_, wake_disk_.fd(), [this] { wake_ring_(); },
                           [this] { uplink_->wake(); });
        return open_control();
    }

    int run() {
        const Fd signals = block_signals();
        std::thread net([this] { uplink_->run(); });
        std::thread disk([this] { disk_role_->run(); });
        std::thread ring([this] { ring_role_->run(); });
        const spool::Stats s = spool_->stats();
        log_info("agent.ready", {{"socket", config_.ring.socket}, {"spool", config_.spool.dir}, {"engine", s.engine},
                                 {"engine_reason", s.engine_reason}, {"endpoint", config_.uplink.endpoint}});
        notify_ready("shipping to " + config_.uplink.endpoint);
        serve(signals.get());
        notify_stopping();
        ring_role_->stop();
        wake_ring_();
        ring.join();
        disk_role_->stop();
        wake_disk_();
        disk.join();
        uplink_->stop();
        net.join();
        ::unlink(control_path(config_.ring.socket).c_str());
        log_info("agent.stopped", {{"durable_group", reached_.durable.load()}});
        return disk_role_->failed() ? 4 : 0;
    }

private:
    static int report(const std::string& what, const Error& error) {
        std::fprintf(stderr, "tallyman agent: %s: %s\n", what.c_str(), error.text().c_str());
        return error.code == Code::busy ? 3 : 4;
    }

    int open_control() {
        const std::string path = control_path(config_.ring.socket);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path.size() >= sizeof address.sun_path) return report("control socket", fail(Code::too_big, "path").error());
        std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
        control_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        ::unlink(path.c_str());  // the attach socket is ours, so no other agent serves this one
        if (!control_ || ::bind(control_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
            ::chmod(path.c_str(), 0660) != 0 || ::listen(control_.get(), 16) != 0)
            return report("control socket " + path, fail_errno("bind").error());
        return 0;
    }

    void serve(int signal_fd) {
        Watchdog watchdog;
        while (!disk_role_->failed()) {
            pollfd fds[2] = {{signal_fd, POLLIN, 0}, {control_.get(), POLLIN, 0}};
            ::poll(fds, 2, serve_wait_ms);
            const std::int64_t now = monotonic_ns();
            watchdog.feed(now, {ring_role_->beat_ns(), disk_role_->beat_ns(), uplink_->stats().beat_ns});
            tell_status(now);
            const int signal = take_signal(signal_fd);
            if (signal == SIGTERM || signal == SIGINT) return;
            if (signal == SIGHUP) reload_config(config_file_, config_, config::load_agent, config::agent_schema);
            if ((fds[1].revents & POLLIN) != 0) answer_control();
        }
    }

    // What `systemctl status` shows.
    void tell_status(std::int64_t now) {
        if (now - told_ns_ < status_interval_ns) return;
        told_ns_ = now;
        const spool::Stats s = disk_role_->snapshot();
        const uplink::Stats up = uplink_->stats();
        notify_status(std::to_string(ring_role_->snapshot().producers.size()) + " rings; uplink " + uplink::state_name(up.state) + ", " +
                      std::to_string(up.sessions) + " sessions; spool " + format_bytes(s.bytes_on_disk) + " of " + format_bytes(s.budget_bytes));
    }

    // One connection, one answer: the status object, then the end.
    void answer_control() {
        Fd peer(::accept4(control_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!peer) return;
        timeval limit{1, 0};
        ::setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        const std::string text = status().dump() + "\n";
        [[maybe_unused]] auto ignored = write_all(peer.get(), as_bytes(text));
    }

    json status() const {
        const RingSnapshot rings = ring_role_->snapshot();
        const spool::Stats s = disk_role_->snapshot();
        const uplink::Stats up = uplink_->stats();
        json lanes = json::object();
        const std::int64_t now = wall_ns();
        for (std::size_t l = 0; l < lane_count; ++l) {
            const spool::LaneStats& lane = s.lanes[l];
            const double oldest = lane.oldest_unacked_ns == 0 ? 0 : static_cast<double>(now - lane.oldest_unacked_ns) / 1e9;
            lanes[lane_name(static_cast<Lane>(l))] = {{"parcels", lane.parcels}, {"bytes", lane.bytes}, {"durable_seq", lane.durable_seq},
                                                      {"acked_seq", lane.acked_seq}, {"oldest_unacked_s", oldest}};
        }
        json producers = json::array();
        for (const ProducerStatus& p : rings.producers)
            producers.push_back({{"id", p.id}, {"pid", p.pid}, {"run", p.run}, {"ring_bytes", p.ring_bytes},
                                 {"pending_bytes", p.pending_bytes}, {"points", p.points}, {"dropped", p.dropped}});
        const double bytes_per_point = rings.points.received > 0 ? static_cast<double>(up.sent_bytes) / static_cast<double>(rings.points.received) : 0;
        return {{"agent", {{"version", version}, {"uptime_s", static_cast<double>(monotonic_ns() - began_ns_) / 1e9}}},
                {"producers", producers},
                {"points", {{"logged", rings.points.logged}, {"durable", rings.points.durable}, {"received", rings.points.received},
                            {"stored", rings.points.stored}, {"dropped", rings.points.dropped}}},
                {"spool", {{"bytes", s.bytes_on_disk}, {"budget_bytes", s.budget_bytes}, {"engine", s.engine}, {"parked", s.parked},
                           {"quarantined", s.quarantined}, {"write_errors", s.write_errors}, {"lanes", lanes}}},
                {"uplink", {{"endpoint", config_.uplink.endpoint}, {"state", uplink::state_name(up.state)}, {"sessions", up.sessions},
                            {"sent_bytes", up.sent_bytes}, {"goodput_bps", up.goodput_bps}, {"rtt_ms", up.rtt_ms},
                            {"bytes_per_point", bytes_per_point}, {"held_bytes", up.held_bytes}, {"last_error", up.last_error}}}};
    }

    config::AgentConfig config_;
    const std::string config_file_;
    std::int64_t told_ns_ = 0;
    std::int64_t began_ns_ = monotonic_ns();
    Wake wake_ring_;
    Wake wake_disk_;
    Reached reached_;
    SpscQueue<intake::Batch> batches_{batches_max};
    SpscQueue<parcel::Gap> losses_{1024};
    uplink::Queues queues_;
    std::unique_ptr<spool::Spool> spool_;
    std::unique_ptr<uplink::Uplink> uplink_;
    std::optional<RingRole> ring_role_;
    std::optional<DiskRole> disk_role_;
    Fd control_;
};

}  // namespace

std::string control_path(const std::string& attach_socket) { return attach_socket + ".control"; }

int run_agent(const std::string& config_file) {
    config::AgentConfig config;
    if (print_problems(config::load_agent(config_file, config))) return 2;
    log_setup(config.log.level, ::getenv("JOURNAL_STREAM") == nullptr);
    Agent agent(std::move(config), config_file);
    if (const int code = agent.open(); code != 0) return code;
    return agent.run();
}

}  // namespace tally::app
