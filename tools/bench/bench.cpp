// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/base/clock.hpp"
#include "agent/base/hash.hpp"
#include "agent/parcel/tile_codec.hpp"
#include "tools/load/load.hpp"

extern char** environ;

namespace tally::bench {

namespace {

using nlohmann::json;
constexpr std::uint32_t envs = 50'000;
constexpr std::uint32_t metrics = 20;

double cpu_seconds(int who) {
    rusage u{};
    ::getrusage(who, &u);
    return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

// One core putting the same frames through the tile encoder and the ledger hash: what encoding alone allows.
double encode_limit() {
    load::Generator generator(load::Shape::rl, 1, metrics, 0, envs, Dtype::f32);
    std::vector<float> frame(std::size_t{envs} * metrics);
    parcel::TileEncoder encoder;
    Bytes out;
    std::uint64_t points = 0;
    std::int64_t spent = 0;
    for (std::uint64_t step = 0; step < 12; ++step) {
        generator.fill(step, frame.data());
        out.clear();
        const std::int64_t began = monotonic_ns();
        for (std::uint32_t m = 0; m < metrics; ++m) {
            for (std::uint32_t e = 0; e < envs; e += parcel::tile_envs_max) {
                parcel::TileHeader h{};
                h.metric = static_cast<std::uint16_t>(m);
                h.item_first = e;
                h.items = std::min(parcel::tile_envs_max, envs - e);
                h.steps = 1;
                const auto* at = reinterpret_cast<const std::uint8_t*>(frame.data() + std::size_t{m} * envs + e);
                encoder.append_values(h, Dtype::f32, {at, h.items * sizeof(float)}, out);
            }
        }
        spent += monotonic_ns() - began;
        points += frame.size();
    }
    return static_cast<double>(points) * 1e9 / static_cast<double>(spent);
}

std::uint16_t free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof a;
    ::bind(fd, reinterpret_cast<const sockaddr*>(&a), n);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &n);
    ::close(fd);
    return ntohs(a.sin_port);
}

class Daemons {
public:
    Daemons(const std::string& dir, bool with_store) : dir_(dir) {
        const std::string port = std::to_string(free_port());
        write("token", "benchmark-token-on-loopback\n");
        std::filesystem::permissions(dir + "/token", std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        write("agent.toml", "[agent]\nsocket = \"" + dir + "/agent.sock\"\n[spool]\ndir = \"" + dir + "/spool\"\n[uplink]\nendpoint = \"ws://127.0.0.1:" +
                                port + "\"\ntoken_file = \"" + dir + "/token\"\n");
        write("receiver.toml", "[receiver]\nlisten = \"127.0.0.1:" + port + "\"\ntoken_file = \"" + dir + "/token\"\ninsecure = true\n[landing]\ndir = \"" +
                                   dir + "/landing\"\n[sink]\nkind = \"chdb\"\ndir = \"" + dir + "/store\"\n");
        if (with_store) start("receiver", "receiver.ready");
        start("agent", "agent.ready");
    }
    ~Daemons() {
        for (auto it = pids_.rbegin(); it != pids_.rend(); ++it) {
            ::kill(*it, SIGTERM);
            ::waitpid(*it, nullptr, 0);
        }
    }
    Daemons(const Daemons&) = delete;
    Daemons& operator=(const Daemons&) = delete;
    bool ok() const { return ok_; }
    std::string socket() const { return dir_ + "/agent.sock"; }

private:
    void write(const char* name, const std::string& text) const { std::ofstream(dir_ + "/" + name) << text; }
    void start(const char* role, const char* ready) {
        const std::string log = dir_ + "/" + role + ".log";
        const std::string config = dir_ + "/" + role + ".toml";
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        std::string self = "/proc/self/exe";
        std::string words[] = {"tallyman", role, "--config", config};
        char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
        pid_t pid = 0;
        const int rc = ::posix_spawn(&pid, self.c_str(), &actions, nullptr, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (rc == 0) pids_.push_back(pid);
        for (int i = 0; rc == 0 && i < 600; ++i) {
            std::ifstream in(log);
            const std::string text((std::istreambuf_iterator<char>(in)), {});
            if (text.find(ready) != std::string::npos) return;
            ::usleep(50'000);
        }
        std::fprintf(stderr, "tallyman bench: %s did not start; see %s\n", role, log.c_str());
        ok_ = false;
    }

    std::string dir_;
    std::vector<pid_t> pids_;
    bool ok_ = true;
};

std::uint64_t bytes_under(const std::string& dir) {
    std::uint64_t n = 0;
    std::error_code ec;
    for (const auto& e : std::filesystem::recursive_directory_iterator(dir, ec))
        if (e.is_regular_file(ec)) n += e.file_size(ec);
    return n;
}

json repeat(const Options& o, const std::string& dir, bool store) {
    std::filesystem::create_directories(dir);
    const double cpu_before = cpu_seconds(RUSAGE_CHILDREN) + cpu_seconds(RUSAGE_SELF);
    load::Totals t;
    std::uint64_t bytes = 0;
    {
        Daemons daemons(dir, store);
        if (!daemons.ok()) return nullptr;
        load::Options l;
        l.socket = daemons.socket();
        l.run = "bench";
        l.envs = envs;
        l.metrics = metrics;
        l.shape = load::Shape::rl;
        l.env_steps = 16;
        // About 25 frames of a million points a second; the figure is points over the time they took.
        l.rl_steps = static_cast<std::uint32_t>(std::max(1.0, o.seconds * 25 / 16));
        l.flush_level = store ? 3 : 1;
        l.flush_timeout_ns = 600'000'000'000;
        t = load::load(l);
        bytes = bytes_under(dir + (store ? "/store" : "/spool"));
    }
    for (const std::string& e : t.errors) std::fprintf(stderr, "tallyman bench: %s\n", e.c_str());
    if (!t.errors.empty() || t.dropped > 0) return nullptr;
    const double cpu = cpu_seconds(RUSAGE_CHILDREN) + cpu_seconds(RUSAGE_SELF) - cpu_before;
    return {{"points", t.points}, {"seconds", t.seconds_to_level}, {"points_per_s", static_cast<double>(t.points) / t.seconds_to_level},
            {"bytes_per_point", static_cast<double>(bytes) / static_cast<double>(t.points)}, {"cpu_s", cpu}};
}

}  // namespace

int run(const Options& options) {
    const bool store = options.name == "store";
    std::string base = options.dir.empty() ? "/tmp/tallyman-bench-" + std::to_string(::getpid()) : options.dir;
    std::vector<json> lines;
    for (int i = 0; i < options.repeats; ++i) {
        const std::string dir = base + "/" + std::to_string(i);
        const double limit = encode_limit();
        json line = repeat(options, dir, store);
        std::error_code ec;
        std::filesystem::remove_all(dir, ec);
        if (line.is_null()) return 1;
        line["case"] = options.name;
        line["limit_name"] = "one core encoding the same tiles";
        line["limit_per_s"] = limit;
        line["ratio_to_limit"] = line["points_per_s"].get<double>() / limit;
        lines.push_back(std::move(line));
    }
    std::error_code ec;
    std::filesystem::remove(base, ec);
    std::vector<json> sorted = lines;
    std::sort(sorted.begin(), sorted.end(), [](const json& a, const json& b) { return a["ratio_to_limit"] < b["ratio_to_limit"]; });
    const json& median = sorted[sorted.size() / 2];
    lines.push_back(median);
    if (options.json) {
        std::printf("%s\n", json{{"results", lines}}.dump().c_str());
    } else {
        for (const json& l : lines)
            std::printf("%s %8.1f M points/s  %5.2f B/point  %6.1f CPU-s  %5.2f of: %s (%.1f M points/s)%s\n", options.name.c_str(),
                        l["points_per_s"].get<double>() / 1e6, l["bytes_per_point"].get<double>(), l["cpu_s"].get<double>(),
                        l["ratio_to_limit"].get<double>(), l["limit_name"].get<std::string>().c_str(), l["limit_per_s"].get<double>() / 1e6,
                        &l == &lines.back() ? "  (median)" : "");
    }
    return 0;
}

}  // namespace tally::bench
