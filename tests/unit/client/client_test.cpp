// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "tests/unit/client/agent.hpp"

using namespace tally;
using namespace tally::client::test;
using ring::RecordKind;

namespace {

template <class T>
T at(const Bytes& b, std::size_t offset) {
    T v;
    std::memcpy(&v, b.data() + offset, sizeof v);
    return v;
}

std::vector<Kept> of_kind(Agent& agent, RecordKind kind) {
    std::vector<Kept> out;
    for (auto& r : agent.records())
        if (r.header.kind == kind) out.push_back(std::move(r));
    return out;
}

}  // namespace

TEST_CASE("scalars, an event, a rewind and the close arrive in order, and close says bye") {
    Dir dir;
    Agent agent(dir.socket());
    tally_run* run = open_run(dir.socket());
    const int loss = tally_series(run, "loss", TALLY_F32);
    CHECK(tally_series(run, "loss", TALLY_F32) == loss);
    CHECK(tally_series(run, "loss", TALLY_F64) != loss);
    const tally_at when{5, 9, 1};
    CHECK(tally_log_f64_at(run, loss, 7, 1.5, &when) == 0);
    CHECK(tally_event(run, "note", "k", "text", 4, 0) == 0);
    CHECK(tally_rewind(run, 3) == 0);
    CHECK(tally_log_i64(run, loss, 8, 2) == 0);
    CHECK(tally_log_f64(run, 99, 8, 2) == -ENOENT);
    CHECK(tally_flush(run, TALLY_DISK, 5'000'000'000) == 0);
    CHECK(tally_flush(run, TALLY_STORE, 1'000'000) == -ETIMEDOUT);
    CHECK(tally_run_close(run, 3) == 0);
    for (int i = 0; i < 1000 && agent.byes() == 0; ++i) ::usleep(1000);
    CHECK(agent.byes() == 1);
    const auto records = agent.records();
    REQUIRE(records.size() == 5);
    CHECK(records[0].header.time_ns == 5);
    CHECK(records[0].header.rl_step == 9);
    CHECK(at<ring::ScalarValue>(records[0].body, 16).bits == 0x3fc00000);
    CHECK(records[3].header.attempt == 1);
    CHECK(at<ring::ScalarValue>(records[3].body, 16).bits == 0x40000000);
    CHECK(at<ring::CloseBody>(records[4].body, 0).exit_code == 3);
    CHECK(agent.faults() == 0);
}

TEST_CASE("many steps are cut by steps, an enormous step by metrics, and every part is a frame the agent accepts") {
    Dir dir;
    Agent agent(dir.socket());
    tally_run* run = open_run(dir.socket());
    constexpr std::uint32_t envs = 10000;
    constexpr std::uint32_t steps = 20;
    const char* names[] = {"a", "b", "c"};
    tally_block_options o = TALLY_BLOCK_OPTIONS_INIT;
    o.metrics = 3;
    o.names = names;
    o.env_count = envs;
    const int block = tally_block_open(run, &o);
    REQUIRE(block >= 0);
    std::vector<float> values(steps * 3 * envs);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    tally_frame f = TALLY_FRAME_INIT;
    f.step = 100;
    f.step_stride = 5;
    f.steps = steps;
    f.matrix = values.data();
    CHECK(tally_block_log(run, block, &f) == 0);
    // A row list of 25,000 repeats makes one step larger than a quarter of the 1 MiB ring: cut by metrics.
    std::vector<std::uint32_t> rows(25000, 3);
    f.steps = 1;
    f.row_list = rows.data();
    f.rows = 25000;
    CHECK(tally_block_log(run, block, &f) == 0);
    CHECK(tally_flush(run, TALLY_DISK, 5'000'000'000) == 0);
    tally_progress_info info{};
    info.size = sizeof info;
    tally_progress(run, &info);
    CHECK(of_kind(agent, RecordKind::frame).back().points == 25000);
    std::vector<std::uint32_t> too_many(70000, 3);
    f.row_list = too_many.data();
    f.rows = 70000;
    CHECK(tally_block_log(run, block, &f) == -E2BIG);
    tally_progress_info after{};
    after.size = sizeof after;
    tally_progress(run, &after);
    CHECK(after.points_dropped == 70000 * 3);
    CHECK(info.points_logged + info.points_dropped == (steps * envs + 25000) * 3);
    CHECK(info.points_dropped == 0);
    CHECK(tally_run_close(run, 0) == 0);
    std::uint64_t seen = 0;
    std::int64_t next_step = 100;
    for (const Kept& r : of_kind(agent, RecordKind::frame)) {
        const auto body = at<ring::FrameBody>(r.body, 0);
        if (body.rows_listed != 0) continue;
        CHECK(body.step_first == next_step);
        next_step += 5 * static_cast<std::int64_t>(body.steps);
        CHECK(std::memcmp(r.body.data() + sizeof body, values.data() + seen, r.points * 4) == 0);
        seen += r.points;
    }
    CHECK(seen == steps * 3 * envs);
    CHECK(agent.faults() == 0);
}

TEST_CASE("a claimed frame is computed in place; abort leaves nothing; a second claim is busy") {
    Dir dir;
    Agent agent(dir.socket());
    tally_run* run = open_run(dir.socket());
    const char* names[] = {"a", "b"};
    const std::uint8_t dtypes[] = {TALLY_U8, TALLY_F64};
    tally_block_options o = TALLY_BLOCK_OPTIONS_INIT;
    o.metrics = 2;
    o.names = names;
    o.dtypes = dtypes;
    o.env_count = 3;
    const int block = tally_block_open(run, &o);
    tally_frame f = TALLY_FRAME_INIT;
    void* places[2] = {};
    REQUIRE(tally_block_claim(run, block, &f, places) == 0);
    CHECK(tally_block_claim(run, block, &f, places) == -EBUSY);
    CHECK(tally_block_abort(run, block) == 0);
    f.step = 4;
    REQUIRE(tally_block_claim(run, block, &f, places) == 0);
    std::memset(places[0], 7, 3);
    const double value = 2.5;
    std::memcpy(static_cast<char*>(places[1]) + 16, &value, 8);
    CHECK(tally_block_commit(run, block) == 0);
    CHECK(tally_block_commit(run, block) == -EINVAL);
    CHECK(tally_run_close(run, 0) == 0);
    const auto frames = of_kind(agent, RecordKind::frame);
    REQUIRE(frames.size() == 1);
    CHECK(at<ring::FrameBody>(frames[0].body, 0).step_first == 4);
    CHECK(at<std::uint64_t>(frames[0].body, 40) == 0x070707);
    CHECK(at<double>(frames[0].body, 48 + 16) == 2.5);
}

TEST_CASE("what the agent would take for corruption is refused before it is written") {
    Dir dir;
    Agent agent(dir.socket());
    tally_run* run = open_run(dir.socket());
    CHECK(tally_series(run, "\xC0\x80", TALLY_F32) == -EINVAL);
    CHECK(tally_series(run, "", TALLY_F32) == -EINVAL);
    CHECK(tally_series(run, "x", 14) == -EINVAL);
    const char* twice[] = {"a", "a"};
    tally_block_options o = TALLY_BLOCK_OPTIONS_INIT;
    o.metrics = 2;
    o.names = twice;
    o.env_count = 3;
    CHECK(tally_block_open(run, &o) == -EINVAL);
    const char* names[] = {"a", "b"};
    o.names = names;
    o.env_first = UINT32_MAX - 1;
    CHECK(tally_block_open(run, &o) == -EINVAL);
    o.env_first = 0;
    const int block = tally_block_open(run, &o);
    const float values[6] = {};
    tally_frame f = TALLY_FRAME_INIT;
    f.matrix = values;
    const std::uint32_t rows[] = {3};
    f.row_list = rows;
    f.rows = 1;
    CHECK(tally_block_log(run, block, &f) == -EINVAL);
    f.row_list = nullptr;
    f.step = INT64_MAX;
    f.steps = 2;
    CHECK(tally_block_log(run, block, &f) == -EINVAL);
    f.step = 1;
    f.steps = 1;
    f.step_stride = 3;  // a stride beside one step is legal for the caller
    CHECK(tally_block_log(run, block, &f) == 0);
    const std::uint32_t env = 0;
    const std::int64_t number = 1;
    const double ret = 1;
    for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{1} << 41}) CHECK(tally_episodes(run, 0, 1, 1, &env, &number, &length, &ret, nullptr) == -EINVAL);
    const std::int64_t ten = 10;
    CHECK(tally_episodes(run, INT64_MIN, 1, 1, &env, &number, &ten, &ret, nullptr) == -EINVAL);
    const std::string big(100'000, 'x');
    CHECK(tally_event(run, "note", "", big.data(), big.size(), 0) == -E2BIG);
    CHECK(tally_run_close(run, 0) == 0);
    CHECK(agent.faults() == 0);
    CHECK(of_kind(agent, RecordKind::frame).size() == 1);
}

TEST_CASE("drops are counted by block and step range and reach the agent") {
    Dir dir;
    Agent agent(dir.socket(), {}, false);  // never commits: the ring fills
    tally_run* run = open_run(dir.socket(), TALLY_FULL_DROP);
    const int series = tally_series(run, "a", TALLY_F64);
    std::uint64_t logged = 0;
    for (std::int64_t step = 0; step < 5000; ++step) CHECK(tally_log_f64(run, series, step, 1) == 0);
    tally_progress_info info{};
    info.size = sizeof info;
    tally_progress(run, &info);
    logged = info.points_logged;
    CHECK(info.points_dropped == 5000 - logged);
    const auto drops = agent.drops();
    REQUIRE(drops.size() == 1);
    CHECK(drops[0].block == 0);
    CHECK(drops[0].step_first == static_cast<std::int64_t>(logged));
    CHECK(drops[0].step_last == 4999);
    CHECK(drops[0].points == 5000 - logged);
    agent.stop();
    // Nobody will ever take it; do not wait ten seconds to hear so.
    const pid_t child = ::fork();
    if (child == 0) ::_exit(tally_run_close(run, 0) == 0 ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);  // a child that never logged has nothing to close, and does not hang
}

TEST_CASE("the parent's death is seen although a forked child lives on") {
    Dir dir;
    ring::Options options;
    auto server = ring::AttachServer::open(dir.socket(), options);
    REQUIRE(server.has_value());
    int pipe_fds[2];
    REQUIRE(::pipe(pipe_fds) == 0);
    const pid_t trainer = ::fork();
    if (trainer == 0) {
        tally_run_options o = TALLY_RUN_OPTIONS_INIT;
        const std::string path = dir.socket();
        o.socket = path.c_str();
        o.attach_timeout_ns = 1'000'000;
        tally_run* run = nullptr;
        if (tally_run_open(&o, &run) != 0) ::_exit(1);
        for (int i = 0; i < 200; ++i) ::usleep(1000);  // the helper thread has dialled
        const pid_t child = ::fork();
        if (child == 0) {
            ::close(pipe_fds[1]);
            char c = 0;
            [[maybe_unused]] const ssize_t n = ::read(pipe_fds[0], &c, 1);  // lives until the test ends
            ::_exit(0);
        }
        ::kill(::getpid(), SIGKILL);
    }
    ::close(pipe_fds[0]);
    int ended = 0;
    for (int i = 0; i < 3000 && ended == 0; ++i) {
        for (auto& event : server->poll(monotonic_ns()))
            if (std::holds_alternative<ring::ConnectionEnded>(event)) ++ended;
        ::usleep(1000);
    }
    CHECK(ended == 1);
    ::close(pipe_fds[1]);
    ::waitpid(trainer, nullptr, 0);
}
