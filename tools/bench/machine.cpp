// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/machine.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tools/reconcile/landing_proof.hpp"
#include "tools/reconcile/store_proof.hpp"

extern char** environ;

namespace tally::bench {

namespace {

constexpr int patience_s = 120;

double cpu_seconds(int who) {
    rusage u{};
    ::getrusage(who, &u);
    return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
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

std::string text_of(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::uint64_t kilobytes(const std::string& status, const char* key) {
    const std::size_t at = status.find(key);
    return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + std::char_traits<char>::length(key), nullptr, 10);
}

// Asks until the verdict is not pending.
template <class Prove>
std::string settled(const Prove& prove) {
    for (int i = 0;; ++i) {
        const reconcile::Report r = prove();
        if (r.verdict != "pending" || i == patience_s * 2) return verdict_of(r);
        ::usleep(500'000);
    }
}

}  // namespace

double cpu_seconds() { return cpu_seconds(RUSAGE_CHILDREN) + cpu_seconds(RUSAGE_SELF); }

double thread_cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

double cpu_seconds_of(pid_t pid) {
    clockid_t clock{};
    timespec t{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &t) != 0) return 0;
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

std::uint64_t rss_of(pid_t pid) {
    const std::string status = text_of("/proc/" + std::to_string(pid) + "/status");
    return (kilobytes(status, "RssAnon:") + kilobytes(status, "RssFile:")) * 1024;
}

unsigned cores() { return std::max(1U, std::thread::hardware_concurrency()); }

std::uint64_t bytes_under(const std::string& dir) {
    std::uint64_t n = 0;
    std::error_code ec;
    for (const auto& e : std::filesystem::recursive_directory_iterator(dir, ec))
        if (e.is_regular_file(ec)) n += e.file_size(ec);
    return n;
}

TempDir::TempDir(const std::string& base) {
    std::error_code ec;
    if (!base.empty()) std::filesystem::create_directories(base, ec);
    path_ = (base.empty() ? std::string("/tmp") : base) + "/tallyman-bench-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
}

TempDir::~TempDir() {
    std::error_code ec;
    if (!path_.empty()) std::filesystem::remove_all(path_, ec);
}

pid_t spawn(const std::function<int()>& work) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(work());
    return pid;
}

int wait_for(pid_t pid) {
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Daemons::Daemons(const std::string& dir, FarEnd far, const std::string& spool_keys) : dir_(dir) {
    const std::string port = std::to_string(free_port());
    const std::string kind = far == FarEnd::store ? "chdb" : "none";
    write("token", "benchmark-token-on-loopback\n");
    std::filesystem::permissions(dir + "/token", std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    write("agent.toml", "[agent]\nsocket = \"" + dir + "/agent.sock\"\n[spool]\ndir = \"" + dir + "/spool\"\n" + spool_keys + "[uplink]\nendpoint = \"ws://127.0.0.1:" +
                            port + "\"\ntoken_file = \"" + dir + "/token\"\n");
    write("receiver.toml", "[receiver]\nlisten = \"127.0.0.1:" + port + "\"\ntoken_file = \"" + dir + "/token\"\ninsecure = true\n[landing]\ndir = \"" + dir +
                               "/landing\"\n[sink]\nkind = \"" + kind + "\"\ndir = \"" + dir + "/store\"\n");
    if (far != FarEnd::none) receiver_ = start("receiver", "receiver.ready");
    if (ok_) agent_ = start("agent", "agent.ready");
}

void Daemons::stop() {
    for (pid_t* pid : {&agent_, &receiver_}) {
        if (*pid <= 0) continue;
        ::kill(*pid, SIGTERM);
        wait_for(*pid);
        *pid = 0;
    }
}

std::string Daemons::why() const { return "a daemon did not start: " + text_of(dir_ + "/receiver.log") + text_of(dir_ + "/agent.log"); }

void Daemons::write(const char* name, const std::string& text) const { std::ofstream(dir_ + "/" + name) << text; }

pid_t Daemons::start(const char* role, const char* ready) {
    const std::string log = dir_ + "/" + role + ".log";
    const std::string config = dir_ + "/" + role + ".toml";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    std::string words[] = {"tallyman", role, "--config", config};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    pid_t pid = 0;
    const int rc = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; rc == 0 && i < patience_s * 1000; ++i) {
        if (text_of(log).find(ready) != std::string::npos) return pid;
        if (::waitpid(pid, nullptr, WNOHANG) == pid) {
            pid = 0;
            break;
        }
        ::usleep(1000);
    }
    ok_ = false;
    return pid;
}

std::string verdict_of(const reconcile::Report& r) {
    if (r.verdict == "exact") return r.verdict;
    std::string text = "reconcile says " + r.verdict + ": " + r.why;
    for (const reconcile::Finding& f : r.first) text += "; " + f.layer + " " + f.metric + " expected " + f.expected + ", found " + f.found;
    return text;
}

// A spool and a landing are read the same way.
std::string prove_spool(const std::string& spool_dir, const std::string& run) { return verdict_of(reconcile::prove_landing(spool_dir, run)); }

std::string prove_landing(const std::string& dir, const std::string& run) {
    return settled([&] { return reconcile::prove_landing(dir + "/landing", run); });
}

std::string prove_store(const std::string& dir, const std::string& run) {
    tools::StoreWhere where;
    where.config = dir + "/receiver.toml";
    const auto store = tools::open_store(where);
    if (!store) return store.error();
    return settled([&] { return reconcile::prove_store(store->query, run); });
}

}  // namespace tally::bench
