// SPDX-License-Identifier: Apache-2.0
//
// A real process on a real disk, killed at every named point and at random, twice where recovery itself can die. What
// it was told to be durable must be there, whole, once, unless it was acknowledged.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

#include "spool/fault_point.hpp"
#include "tests/unit/spool/model.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

namespace {

constexpr std::uint64_t seed = 4711;

std::string child_path() {
    char self[512] = {};
    REQUIRE(::readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    return (fs::path(self).parent_path() / "spool_crash_child").string();
}

struct Told {
    std::uint64_t start = 0;  // 0: died before it was open
    std::uint64_t durable = 0;
    std::set<ParcelId> acked;
    int status = 0;
};

// kill_after_us 0: wait for the fault point.
Told run_child(const std::string& dir, const std::string& point, unsigned kill_after_us) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const std::string child = child_path();
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        ::dup2(ends[1], 1);
        ::close(ends[0]);
        ::close(ends[1]);
        if (!point.empty()) ::setenv("TALLYMAN_FAULT_POINT", point.c_str(), 1);
        ::execl(child.c_str(), child.c_str(), dir.c_str(), std::to_string(seed).c_str(), nullptr);
        ::_exit(99);
    }
    ::close(ends[1]);
    if (kill_after_us > 0) {
        ::usleep(kill_after_us);
        ::kill(pid, SIGKILL);
    }
    std::string text;
    char buffer[65536];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    Told told;
    REQUIRE(::waitpid(pid, &told.status, 0) == pid);
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        char kind = 0;
        std::uint64_t a = 0, b = 0, c = 0;
        words >> kind >> a >> b >> c;
        if (kind == 'S') told.start = a;
        if (kind == 'D') told.durable = a;
        if (kind == 'A') told.acked.insert({StartId{a}, static_cast<Lane>(b), Seq{c}});
    }
    return told;
}

class Oracle {
public:
    explicit Oracle(std::string dir) : options_(small_options(dir)) {}

    void child_ended(const Told& told) {
        REQUIRE(WIFSIGNALED(told.status));
        model_.acked.insert(told.acked.begin(), told.acked.end());
        if (told.start == 0) return;
        model_.lives.push_back({told.start, model_.cursors_at(), {}});
        durable_ = told.durable;
        open_ended_ = true;
    }
    // Opens, compares everything, closes again.
    void check() {
        auto s = must_open(options_);
        if (open_ended_) {
            fill_groups(*s);
            model_.cut(model_.check(*s, durable_));
        } else if (!model_.lives.empty()) {
            model_.check(*s, model_.lives.back().groups.size());
        }
        open_ended_ = false;
        durable_ = 0;
    }

private:
    // The child's groups follow from the seed; how many there may be, from what the spool claims.
    void fill_groups(Spool& s) {
        std::uint64_t groups = durable_;
        for (const EndedStart& end : s.ended_starts()) {
            if (end.start == model_.lives.back().start) groups = std::max(groups, end.group);
        }
        REQUIRE(groups < 5000);
        std::uint64_t next[lane_count] = {1, 1, 1};
        for (std::uint64_t g = 1; g <= groups; ++g) {
            std::mt19937_64 rng(seed + g);
            const Shape shape = random_shape(rng, g);
            ModelGroup group;
            group.cursors = shape.cursors;
            const std::size_t counts[] = {shape.live.size(), shape.bulk.size(), shape.file.size()};
            for (std::size_t lane = 0; lane < lane_count; ++lane) {
                for (std::size_t i = 0; i < counts[lane]; ++i) {
                    group.records.push_back(
                        {StartId{model_.lives.back().start}, static_cast<Lane>(lane), Seq{next[lane]++}});
                }
            }
            model_.lives.back().groups.push_back(std::move(group));
        }
    }

    Options options_;
    Model model_;
    std::uint64_t durable_ = 0;
    bool open_ended_ = false;
};

class DiskDir {
public:
    DiskDir() {
        std::string text = "/var/tmp/tally-crash-XXXXXX";
        REQUIRE(::mkdtemp(text.data()) != nullptr);
        path = text;
        log_setup(LogLevel::error, false);
    }
    ~DiskDir() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
    DiskDir(const DiskDir&) = delete;
    DiskDir& operator=(const DiskDir&) = delete;
    std::string path;
};

}  // namespace

TEST_SUITE("spool crash") {
    TEST_CASE("killed at every fault point, then again inside recovery") {
        const char* recovery[] = {"", "recovery-judged", "segment-created", "recovery-header-written",
                                  "dir-synced"};
        for (const char* point : fault_points) {
            CAPTURE(point);
            DiskDir dir;
            Oracle oracle(dir.path + "/s");
            std::size_t second = 0;
            for (const char* count : {":1", ":2", ":7", ":40"}) {
                const bool once = std::string_view(point).starts_with("recovery-");
                CAPTURE(count);
                oracle.child_ended(run_child(dir.path + "/s", std::string(point) + (once ? ":1" : count), 0));
                const std::string again = recovery[second++ % std::size(recovery)];
                if (!again.empty()) {
                    const Told died = run_child(dir.path + "/s", again + ":1", 0);
                    CHECK(died.start == 0);
                    REQUIRE(WIFSIGNALED(died.status));
                }
                oracle.check();
            }
        }
    }

    TEST_CASE("never killed, it fills its budget over and over and ends") {
        DiskDir dir;
        const Told told = run_child(dir.path + "/s", "", 0);
        REQUIRE(WIFEXITED(told.status));
        CHECK(WEXITSTATUS(told.status) == 0);
        CHECK(told.durable > 2000);
    }

    TEST_CASE("killed at random, forty lives on one spool") {
        DiskDir dir;
        Oracle oracle(dir.path + "/s");
        std::mt19937_64 rng(99);
        for (int life = 0; life < 40; ++life) {
            CAPTURE(life);
            oracle.child_ended(run_child(dir.path + "/s", "", 3000 + static_cast<unsigned>(rng() % 60000)));
            if (life % 3 != 0) oracle.check();
            if (life % 3 == 0) {
                const Told died = run_child(dir.path + "/s", "recovery-judged:1", 0);
                REQUIRE(WIFSIGNALED(died.status));
                oracle.check();
            }
        }
    }
}
