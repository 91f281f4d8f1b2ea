// SPDX-License-Identifier: Apache-2.0
//
// Write errors: the k-th write fails or is short. Nothing durable may be lost, nothing may be doubled, and the next life
// must see the same.
#include <cerrno>

#include "tests/unit/spool/support.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

namespace {

void run_with(const Options& options, const Seams& seams, int groups, bool expect_errors) {
    StartId start{};
    {
        auto s = must_open(options, seams);
        start = s->start();
        for (int i = 1; i <= groups; ++i) {
            append_one(*s, {.live = {100, 2000},
                            .bulk = {9000, 30000},
                            .cursors = {{text_bytes("n"), text_bytes(std::to_string(i))}}});
            REQUIRE(s->poll(monotonic_ns()).has_value());
            // What is handed out early must not be handed out again after its segment failed.
            if (i == groups / 2) CHECK(fetch_all(*s, Lane::bulk).size() <= static_cast<std::size_t>(2 * i));
        }
        REQUIRE(s->drain().has_value());
        CHECK((s->stats().write_errors > 0) == expect_errors);
        CHECK(raw(s->durable_group()) == static_cast<std::uint64_t>(groups));
        CHECK(fetch_all(*s, Lane::live).size() == static_cast<std::size_t>(2 * groups));
        fetch_all(*s, Lane::bulk);
        CHECK(s->damage().empty());
    }
    auto s = must_open(options);
    CHECK(s->damage().empty());
    CHECK(s->ended_starts().back().group == static_cast<std::uint64_t>(groups));
    CHECK(as_text(s->cursors().at(text_bytes("n"))) == std::to_string(groups));
    auto bulk = seqs_of(fetch_all(*s, Lane::bulk));
    std::sort(bulk.begin(), bulk.end());
    REQUIRE(bulk.size() == static_cast<std::size_t>(2 * groups));
    CHECK(std::adjacent_find(bulk.begin(), bulk.end()) == bulk.end());
    const auto summary = scan(options.dir, [](const ScannedRecord&) { return true; });
    REQUIRE(summary.has_value());
    CHECK(summary->damage.empty());
    s->ack_received(start, Lane::bulk, range(1, static_cast<std::uint64_t>(2 * groups)));
    s->ack_received(start, Lane::live, range(1, static_cast<std::uint64_t>(2 * groups)));
    for (int i = 0; i < 20; ++i) REQUIRE(s->sweep().has_value());
    CHECK(files_in(options.dir + "/bulk").empty());
    CHECK(files_in(options.dir + "/live").size() == 1);
}

}  // namespace

TEST_SUITE("spool write errors") {
    TEST_CASE("W2: EIO or ENOSPC in the k-th write moves what is not durable to a new segment") {
        for (const Engine engine : {Engine::automatic, Engine::pwritev2}) {
            for (const int error : {EIO, ENOSPC}) {
                for (std::uint64_t at = 1; at <= 60; at += at < 12 ? 1 : 7) {
                    CAPTURE(at);
                    CAPTURE(error);
                    TempDir dir;
                    auto options = small_options(dir.path());
                    options.engine = engine;
                    run_with(options, faulty({{.at = at, .error = error}}), 30, true);
                }
            }
        }
    }

    TEST_CASE("several failures in a row, also of the rewriting") {
        for (std::uint64_t count = 2; count <= 9; ++count) {
            CAPTURE(count);
            TempDir dir;
            run_with(small_options(dir.path()),
                     faulty({{.at = 11, .error = EIO, .count = count}, {.at = 40, .error = EIO}}), 30, true);
        }
    }

    TEST_CASE("short writes are resumed and passing errors tried again: no segment is lost by them") {
        for (const std::uint32_t short_by : {1U, 512U, 4096U}) {
            CAPTURE(short_by);
            TempDir dir;
            run_with(small_options(dir.path()), faulty({{.at = 3, .short_by = short_by, .count = 40}}), 30,
                     false);
        }
        for (const int error : {EINTR, EAGAIN}) {
            TempDir dir;
            run_with(small_options(dir.path()), faulty({{.at = 5, .error = error, .count = 4}}), 30, false);
        }
    }

    TEST_CASE("when no segment can be opened append says so, and goes on when it can") {
        TempDir dir;
        int refuse = 0;
        Seams seams = real_seams();
        seams.refuse_segment = [&](Lane) { return refuse; };
        auto s = must_open(small_options(dir.path()), seams);
        append_one(*s, {.bulk = {20000}});
        REQUIRE(s->drain().has_value());
        refuse = EIO;
        const auto appended = s->append(make_group(*s, {.bulk = {30000}}));
        REQUIRE(!appended.has_value());
        CHECK(appended.error().code == Code::io);
        refuse = ENOSPC;
        CHECK(*s->append(make_group(*s, {.bulk = {30000}})) == Append::full);
        CHECK(fetch_all(*s, Lane::bulk).size() == 1);  // reading goes on
        refuse = 0;
        append_one(*s, {.bulk = {30000}});
        REQUIRE(s->drain().has_value());
        CHECK(raw(s->durable_group()) == 2);
    }

    TEST_CASE("rewriting waits for space and keeps the groups meanwhile") {
        TempDir dir;
        int refuse = 0;
        Seams seams = faulty({{.at = 5, .error = EIO}});
        seams.refuse_segment = [&](Lane) { return refuse; };
        auto s = must_open(small_options(dir.path()), seams);
        append_one(*s, {.bulk = {1000}});
        append_one(*s, {.bulk = {1000}});
        REQUIRE(s->drain().has_value());
        refuse = ENOSPC;
        append_one(*s, {.bulk = {1000}});
        for (std::int64_t now = 0; now < 5; ++now) REQUIRE(s->poll(now * 50'000'000).has_value());
        CHECK(raw(s->durable_group()) == 2);
        CHECK(!s->has_room(10));
        CHECK(*s->append(make_group(*s, {})) == Append::full);
        refuse = 0;
        REQUIRE(s->drain().has_value());
        CHECK(raw(s->durable_group()) == 3);
        CHECK(fetch_all(*s, Lane::bulk).size() == 3);
        CHECK(fetch_all(*s, Lane::live).size() == 3);
    }
}
