// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/spool/support.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

TEST_SUITE("spool contract") {
    TEST_CASE("a new spool is empty, has an identity, and keeps it") {
        TempDir dir;
        Uuid uuid;
        StartId start{};
        {
            auto s = must_open(small_options(dir.path()));
            uuid = s->uuid();
            start = s->start();
            CHECK(!uuid.is_nil());
            CHECK(raw(start) != 0);
            CHECK(s->ended_starts().empty());
            CHECK(s->cursors().empty());
            CHECK(s->damage().empty());
            CHECK(s->fetch(Lane::live, 1000)->empty());
            CHECK(raw(s->plan().group) == 1);
            CHECK(raw(s->plan().next[1]) == 1);
        }
        auto s = must_open(small_options(dir.path()));
        CHECK(s->uuid() == uuid);
        CHECK(s->start() != start);
    }

    TEST_CASE("I1 I2: groups become durable in order and are fetched once, also by the next life") {
        for (const Engine engine : {Engine::automatic, Engine::pwritev2}) {
            TempDir dir;
            auto options = small_options(dir.path());
            options.engine = engine;
            StartId first{};
            {
                auto s = must_open(options);
                first = s->start();
                CHECK(s->stats().engine == (engine == Engine::pwritev2 ? "pwritev2" : s->stats().engine));
                for (int i = 0; i < 20; ++i) append_one(*s, {.live = {100}, .bulk = {5000, 20000}});
                REQUIRE(s->drain().has_value());
                CHECK(raw(s->durable_group()) == 20);
                CHECK(s->groups_in_flight() == 0);
                CHECK(seqs_of(fetch_all(*s, Lane::live)).size() == 20);
                const auto bulk = seqs_of(fetch_all(*s, Lane::bulk));
                REQUIRE(bulk.size() == 40);
                for (std::size_t i = 0; i < bulk.size(); ++i) CHECK(bulk[i] == i + 1);
                CHECK(s->fetch(Lane::bulk, 1 << 20)->empty());
                CHECK(s->stats().lanes[1].parcels == 40);
                CHECK(s->stats().lanes[1].durable_seq == 40);
            }
            auto s = must_open(options);
            REQUIRE(s->ended_starts().size() == 1);
            CHECK(s->ended_starts()[0].start == raw(first));
            CHECK(s->ended_starts()[0].group == 20);
            CHECK(s->ended_starts()[0].seq[0] == 20);
            CHECK(s->ended_starts()[0].seq[1] == 40);
            CHECK(s->damage().empty());
            CHECK(s->stats().lanes[1].parcels == 40);
            const auto again = fetch_all(*s, Lane::bulk);
            CHECK(again.size() == 40);
            for (const Fetched& one : again) CHECK(one.id.start == first);
            const auto kept = s->kept();
            CHECK(std::any_of(kept.begin(), kept.end(), [&](const Spool::Kept& k) {
                return k.start == first && k.lane == Lane::bulk && k.seq_first == 1 && k.seq_last == 40;
            }));
        }
    }

    TEST_CASE("cursors are those of the last durable group, removals included") {
        TempDir dir;
        const auto a = text_bytes("a"), b = text_bytes("b"), c = text_bytes("c");
        CursorTable last;
        {
            auto s = must_open(small_options(dir.path()));
            for (int i = 1; i <= 300; ++i) {
                append_one(*s, {.live = {3000},
                                .cursors = {{a, text_bytes(std::to_string(i))},
                                            {b, i % 2 ? text_bytes("on") : Bytes{}}}});
                if (i == 5) append_one(*s, {.cursors = {{c, text_bytes("early")}}});
            }
            REQUIRE(s->drain().has_value());
            last = s->cursors();
            CHECK(as_text(last.at(a)) == "300");
            CHECK(!last.contains(b));
            CHECK(as_text(last.at(c)) == "early");
        }
        for (int life = 0; life < 3; ++life) CHECK(must_open(small_options(dir.path()))->cursors() == last);
    }

    TEST_CASE("I3: a segment goes after the synced ack, the newest live one never, and space comes back") {
        TempDir dir;
        auto options = small_options(dir.path());
        auto s = must_open(options);
        for (int i = 0; i < 100; ++i) append_one(*s, {.live = {100}, .bulk = {30000}});
        REQUIRE(s->drain().has_value());
        const auto before = s->stats().bytes_on_disk;
        REQUIRE(s->sweep().has_value());
        CHECK(s->stats().bytes_on_disk <= before + 4096);  // the ack file says what is durable
        s->ack_received(s->start(), Lane::bulk, range(1, 50));
        REQUIRE(s->sweep().has_value());
        CHECK(s->stats().bytes_on_disk < before);
        CHECK(seqs_of(fetch_all(*s, Lane::bulk)).front() == 51);
        CHECK(s->received(s->start(), Lane::bulk) == range(1, 50));
        s->ack_received(s->start(), Lane::bulk, range(51, 100));
        s->ack_received(s->start(), Lane::live, range(1, 100));
        REQUIRE(s->sweep().has_value());
        CHECK(files_in(dir.path() + "/live").size() >= 1);
        CHECK(files_in(dir.path() + "/live").size() <= 2);
        CHECK(files_in(dir.path() + "/bulk").size() <= 2);  // S4 may hold one back
        CHECK(s->stats().lanes[1].parcels == 0);
        CHECK(s->stats().lanes[1].acked_seq == 100);
        s.reset();
        s = must_open(options);
        CHECK(s->damage().empty());
        CHECK(fetch_all(*s, Lane::bulk).empty());
        CHECK(fetch_all(*s, Lane::live).empty());
        CHECK(s->ended_starts().back().seq[1] == 100);
    }

    TEST_CASE("acks of sequences that do not exist yet are not believed") {
        TempDir dir;
        auto s = must_open(small_options(dir.path()));
        append_one(*s, {.live = {100}, .bulk = {100}});
        REQUIRE(s->drain().has_value());
        s->ack_received(s->start(), Lane::bulk, range(1, 1000));
        s->ack_received(StartId{12345}, Lane::bulk, range(1, 1000));
        CHECK(s->received(s->start(), Lane::bulk) == range(1, 1));
        append_one(*s, {.live = {100}, .bulk = {100}});
        REQUIRE(s->drain().has_value());
        CHECK(seqs_of(fetch_all(*s, Lane::bulk)) == std::vector<std::uint64_t>{2});
    }

    TEST_CASE("keep_until stored keeps what is only received, keep_acked keeps everything") {
        TempDir dir;
        auto options = small_options(dir.path("a"));
        options.keep_until = KeepUntil::stored;
        auto s = must_open(options);
        for (int i = 0; i < 40; ++i) append_one(*s, {.live = {100}, .bulk = {30000}});
        REQUIRE(s->drain().has_value());
        const auto before = s->stats().bytes_on_disk;
        s->ack_received(s->start(), Lane::bulk, range(1, 40));
        REQUIRE(s->sweep().has_value());
        CHECK(s->stats().bytes_on_disk >= before);
        s->ack_stored(s->start(), Lane::bulk, range(1, 39));
        REQUIRE(s->sweep().has_value());
        CHECK(s->stats().bytes_on_disk < before);
        CHECK(s->stored(s->start(), Lane::bulk) == range(1, 39));

        auto landing = small_options(dir.path("b"));
        landing.keep_acked = true;
        auto l = must_open(landing);
        for (int i = 0; i < 20; ++i) append_one(*l, {.live = {100}, .bulk = {30000}});
        REQUIRE(l->drain().has_value());
        const auto all = dir_bytes(dir.path("b") + "/bulk");
        l->ack_stored(l->start(), Lane::bulk, range(1, 20));
        REQUIRE(l->sweep().has_value());
        CHECK(dir_bytes(dir.path("b") + "/bulk") == all);
        l.reset();
        l = must_open(landing);
        CHECK(fetch_all(*l, Lane::bulk).empty());
        CHECK(fetch_all(*l, Lane::live).size() == 20);
    }

    TEST_CASE("a full budget is an outcome, is never exceeded, and ends with acks") {
        TempDir dir;
        auto options = small_options(dir.path());
        options.budget_bytes = 1U << 20;
        auto s = must_open(options);
        std::uint64_t taken = 0;
        for (;;) {
            const auto appended = s->append(make_group(*s, {.live = {100}, .bulk = {20000}}));
            REQUIRE(appended.has_value());
            REQUIRE(s->drain().has_value());
            CHECK(dir_bytes(dir.path()) <= options.budget_bytes);
            CHECK(s->stats().bytes_on_disk <= options.budget_bytes);
            if (*appended == Append::full) break;
            ++taken;
            REQUIRE(taken < 100);
        }
        CHECK(taken >= 20);
        CHECK(!s->has_room(20000));
        // A declaration of loss still fits into what is kept back.
        CHECK(*s->append(make_group(*s, {.live = {40000}, .reserve = true})) == Append::ok);
        REQUIRE(s->drain().has_value());
        CHECK(dir_bytes(dir.path()) <= options.budget_bytes);
        CHECK(fetch_all(*s, Lane::bulk).size() == taken);
        s->ack_received(s->start(), Lane::bulk, range(1, taken));
        REQUIRE(s->sweep().has_value());
        CHECK(s->has_room(20000));
        CHECK(*s->append(make_group(*s, {.live = {100}, .bulk = {20000}})) == Append::ok);
        REQUIRE(s->drain().has_value());
    }

    TEST_CASE("free space of the file system below the reserve is full too") {
        TempDir dir;
        auto options = small_options(dir.path());
        options.reserve_free_bytes = 1ULL << 60;
        auto s = must_open(options);
        CHECK(!s->has_room(100000));
        CHECK(*s->append(make_group(*s, {.live = {100}, .bulk = {100000}})) == Append::full);
    }

    TEST_CASE("a record larger than any segment gets one of its size; a group may span segments") {
        TempDir dir;
        auto options = small_options(dir.path());
        {
            auto s = must_open(options);
            append_one(*s,
                       {.live = {10, 40000, 60000, 90000}, .bulk = {3U << 20, 1, 2U << 20}, .file = {1000}});
            REQUIRE(s->drain().has_value());
            CHECK(fetch_all(*s, Lane::bulk).size() == 3);
        }
        auto s = must_open(options);
        CHECK(s->ended_starts()[0].group == 1);
        CHECK(fetch_all(*s, Lane::live).size() == 4);
        CHECK(fetch_all(*s, Lane::bulk).size() == 3);
        CHECK(fetch_all(*s, Lane::file).size() == 1);
    }

    TEST_CASE("groups in flight are bounded and nothing is fetched before it is durable") {
        TempDir dir;
        auto options = small_options(dir.path());
        options.groups_in_flight_max = 2;
        auto s = must_open(options);
        CHECK(*s->append(make_group(*s, {.bulk = {1000}})) == Append::ok);
        CHECK(*s->append(make_group(*s, {.bulk = {1000}})) == Append::ok);
        CHECK(s->groups_in_flight() == 2);
        CHECK(!s->has_room(10));
        CHECK(*s->append(make_group(*s, {.bulk = {1000}})) == Append::full);
        CHECK(s->fetch(Lane::bulk, 1000)->empty());
        for (int i = 0; i < 100000 && s->groups_in_flight() > 0; ++i)
            CHECK(s->poll(monotonic_ns()).has_value());
        CHECK(raw(s->durable_group()) == 2);
        CHECK(fetch_all(*s, Lane::bulk).size() == 2);
    }

    TEST_CASE("a group that breaks the rules is refused and changes nothing") {
        TempDir dir;
        auto s = must_open(small_options(dir.path()));
        Group group = make_group(*s, {});
        group.number = GroupNo{7};
        CHECK(s->append(group).error().code == Code::invalid);
        group = make_group(*s, {});
        group.records[0].lane = Lane::bulk;
        CHECK(s->append(group).error().code == Code::invalid);
        group = make_group(*s, {.bulk = {1}});
        group.records[1].seq = Seq{2};
        CHECK(s->append(group).error().code == Code::invalid);
        group = make_group(*s, {});
        group.records[0].payload = std::make_shared<const Bytes>(payload_bytes_max + 1);
        CHECK(s->append(group).error().code == Code::too_big);
        group = make_group(*s, {});
        group.records.clear();
        CHECK(s->append(group).error().code == Code::invalid);
        append_one(*s, {});
        CHECK(s->drain().has_value());
        CHECK(raw(s->durable_group()) == 1);
    }

    TEST_CASE("two openers: the second is told who has it") {
        TempDir dir;
        auto s = must_open(small_options(dir.path()));
        const auto second = Spool::open(small_options(dir.path()));
        REQUIRE(!second.has_value());
        CHECK(second.error().code == Code::busy);
        CHECK(second.error().number == static_cast<std::uint64_t>(::getpid()));
        s.reset();
        CHECK(Spool::open(small_options(dir.path())).has_value());
    }

    TEST_CASE("options that make no sense are refused with a reason") {
        TempDir dir;
        auto options = small_options(dir.path());
        options.segment_bytes_max = options.segment_bytes_min / 2;
        CHECK(Spool::open(options).error().code == Code::invalid);
        options = small_options(dir.path());
        options.budget_bytes = options.segment_bytes_min;
        CHECK(Spool::open(options).error().code == Code::invalid);
        options = small_options(dir.path());
        options.segment_bytes_min = 5000;
        CHECK(Spool::open(options).error().code == Code::invalid);
    }

    TEST_CASE("a life that ends before its first group hands on how the lives before it ended") {
        TempDir dir;
        const auto options = small_options(dir.path());
        StartId told{};
        {
            auto s = must_open(options);
            told = s->start();
            append_one(*s, {.live = {10}, .bulk = {1000}});
            REQUIRE(s->drain().has_value());
            s->ack_received(told, Lane::live, range(1, 1));
            s->ack_received(told, Lane::bulk, range(1, 1));
            REQUIRE(s->sweep().has_value());
        }
        for (int life = 0; life < 3; ++life) {
            auto s = must_open(options);  // says nothing
            REQUIRE(s->sweep().has_value());
        }
        const auto names = [&](const Spool& s) {
            return std::any_of(s.ended_starts().begin(), s.ended_starts().end(), [&](const EndedStart& e) {
                return e.start == raw(told) && e.group == 1 && e.seq[0] == 1 && e.seq[1] == 1;
            });
        };
        {
            auto s = must_open(options);
            CHECK(names(*s));
            append_one(*s, {.live = {10}});  // tells it
            REQUIRE(s->drain().has_value());
            REQUIRE(s->sweep().has_value());
        }
        CHECK_FALSE(names(*must_open(options)));
    }

    TEST_CASE("what is durable is remembered although its segments were deleted, and numbers are not used again") {
        TempDir dir;
        const auto options = small_options(dir.path());
        StartId start{};
        {
            auto s = must_open(options);
            start = s->start();
            for (int i = 0; i < 60; ++i) append_one(*s, {.live = {100}, .bulk = {30000}});
            REQUIRE(s->drain().has_value());
            s->ack_received(start, Lane::bulk, range(1, 60));
            REQUIRE(s->sweep().has_value());
            CHECK(files_in(options.dir + "/bulk").size() <= 1);
        }
        std::uint64_t highest = 0;
        {
            auto s = must_open(options);
            CHECK(s->ended_starts().back().group == 60);
            CHECK(s->ended_starts().back().seq[1] == 60);
            for (const std::string& file : files_in(options.dir + "/bulk")) highest = std::max<std::uint64_t>(highest, std::stoull(file.substr(file.size() - 20, 16), nullptr, 16));
            REQUIRE(s->sweep().has_value());
        }
        for (const std::string& file : files_in(options.dir + "/bulk")) std::filesystem::remove(file);
        auto s = must_open(options);
        append_one(*s, {.bulk = {1000}});
        REQUIRE(s->drain().has_value());
        for (const std::string& file : files_in(options.dir + "/bulk"))
            CHECK(std::stoull(file.substr(file.size() - 20, 16), nullptr, 16) > highest);
    }

    TEST_CASE("keep until stored: what a lost receiver had received is fetched again for another one") {
        TempDir dir;
        auto options = small_options(dir.path());
        options.keep_until = KeepUntil::stored;
        const Uuid first = Uuid::random();
        auto s = must_open(options);
        for (int i = 0; i < 6; ++i) append_one(*s, {.live = {10}, .bulk = {1000}});
        REQUIRE(s->drain().has_value());
        CHECK(fetch_all(*s, Lane::bulk).size() == 6);
        s->ack_received(s->start(), Lane::bulk, range(1, 4), first);
        s->ack_stored(s->start(), Lane::bulk, range(1, 2));
        s->refetch(first);
        CHECK(fetch_all(*s, Lane::bulk).empty());
        s->refetch(Uuid::random());
        CHECK(seqs_of(fetch_all(*s, Lane::bulk)) == std::vector<std::uint64_t>{3, 4});
        CHECK(fetch_all(*s, Lane::bulk).empty());
    }

    TEST_CASE("a parked record is kept beside, is not called received, and pins no segment") {
        TempDir dir;
        auto options = small_options(dir.path());
        options.keep_until = KeepUntil::stored;
        StartId start{};
        {
            auto s = must_open(options);
            start = s->start();
            for (int i = 0; i < 3; ++i) append_one(*s, {.bulk = {1000}});
            REQUIRE(s->drain().has_value());
            auto got = fetch_all(*s, Lane::bulk);
            REQUIRE(s->park(got[1].id, got[1].payload, "schema refused").has_value());
            REQUIRE(s->park(got[1].id, got[1].payload, "schema refused").has_value());
            CHECK(s->received(start, Lane::bulk).empty());
            CHECK(s->stats().parked == 1);
            REQUIRE(s->sweep().has_value());
            const auto files = files_in(dir.path() + "/parked");
            REQUIRE(files.size() == 2);
            CHECK(as_text(slurp(files[0])) == as_text(*got[1].payload));
            CHECK(as_text(slurp(files[1])) == "schema refused");
        }
        auto s = must_open(options);
        CHECK(s->stats().parked == 1);
        CHECK(seqs_of(fetch_all(*s, Lane::bulk)) == std::vector<std::uint64_t>{1, 3});
        s->ack_stored(start, Lane::bulk, range(1, 1));
        s->ack_stored(start, Lane::bulk, range(3, 3));
        s->ack_stored(start, Lane::live, range(1, 3));
        REQUIRE(s->sweep().has_value());
        const auto damage = s->damage();
        REQUIRE(damage.size() == 1);
        CHECK(damage[0].parked);
        CHECK(damage[0].seq_first == 2);
        CHECK(damage[0].seq_last == 2);
        CHECK_FALSE(files_in(dir.path() + "/bulk").empty());
        s->declare_lost(start, Lane::bulk, range(2, 2));
        REQUIRE(s->sweep().has_value());
        CHECK(files_in(dir.path() + "/bulk").empty());
    }

    TEST_CASE("restarting a hundred times does not fill the disk and loses nothing") {
        TempDir dir;
        auto options = small_options(dir.path());
        for (int i = 0; i < 100; ++i) {
            auto s = must_open(options);
            if (i == 50) append_one(*s, {.bulk = {10}, .cursors = {{text_bytes("k"), text_bytes("v")}}});
            REQUIRE(s->drain().has_value());
        }
        auto s = must_open(options);
        CHECK(files_in(dir.path() + "/live").size() <= 2);
        CHECK(s->ended_starts().size() <= 2);
        CHECK(fetch_all(*s, Lane::bulk).size() == 1);
        CHECK(as_text(s->cursors().at(text_bytes("k"))) == "v");
    }

    TEST_CASE("memory does not hold the backlog: old payloads come from disk") {
        TempDir dir;
        auto options = small_options(dir.path());
        options.cache_bytes = 0;
        auto s = must_open(options);
        for (int i = 0; i < 200; ++i) append_one(*s, {.bulk = {20000}});
        REQUIRE(s->drain().has_value());
        CHECK(fetch_all(*s, Lane::bulk, 1).size() == 200);
        CHECK(s->damage().empty());
    }

    TEST_CASE("scan sees a spool in use: committed, acked, cursors") {
        TempDir dir;
        auto options = small_options(dir.path());
        auto s = must_open(options);
        for (int i = 0; i < 30; ++i)
            append_one(*s, {.bulk = {9000}, .cursors = {{text_bytes("k"), text_bytes(std::to_string(i))}}});
        REQUIRE(s->drain().has_value());
        s->ack_received(s->start(), Lane::bulk, range(1, 3));
        REQUIRE(s->sweep().has_value());
        std::uint64_t committed = 0, acked = 0;
        const auto summary = scan(dir.path(), [&](const ScannedRecord& r) {
            committed += r.committed;
            acked += r.acked;
            CHECK(payload_right(
                {StartId{r.header.start}, static_cast<Lane>(r.header.lane), Seq{r.header.seq}}, r.payload));
            return true;
        });
        REQUIRE(summary.has_value());
        CHECK(summary->spool == s->uuid());
        CHECK(summary->records == committed);
        CHECK(committed >= 57);
        CHECK(summary->uncommitted == 0);
        CHECK(acked <= 3);
        CHECK(summary->damage.empty());
        CHECK(summary->cursors == s->cursors());
        CHECK(!scan(dir.path("nothing"), [](const ScannedRecord&) { return true; }).has_value());
    }

    TEST_CASE("one thread may open it and another one use it; completions make the descriptor readable") {
        TempDir dir;
        auto s = must_open(small_options(dir.path()));
        std::thread disk([&] {
            for (int i = 0; i < 10; ++i) {
                append_one(*s, {.bulk = {20000}});
                pollfd fd{s->completion_fd(), POLLIN, 0};
                if (fd.fd >= 0) CHECK(::poll(&fd, 1, 10000) == 1);
                CHECK(s->poll(monotonic_ns()).has_value());
            }
            CHECK(s->drain().has_value());
            CHECK(fetch_all(*s, Lane::bulk).size() == 10);
            append_one(*s, {.bulk = {20000}});
        });
        disk.join();
        s.reset();  // with something in flight, from yet another thread
        CHECK(must_open(small_options(dir.path()))->ended_starts().back().group >= 10);
    }

    TEST_CASE("without io_uring the other engine serves, and the reason is kept") {
        rlimit before{};
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
        rlimit none = before;
        none.rlim_cur = 3;  // no descriptor for a ring
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
        const auto chosen = choose_engine(Engine::automatic, {});
        const auto forced = choose_engine(Engine::io_uring, {});
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
        REQUIRE(chosen.has_value());
        CHECK(std::string(chosen->engine->name()) == "pwritev2");
        CHECK(!chosen->reason.empty());
        CHECK(!forced.has_value());
    }

    TEST_CASE("a segment the writer has just left is swept only when the writer has let go of it") {
        TempDir dir;
        auto s = must_open(small_options(dir.path()));
        append_one(*s, {.bulk = {20000}});
        REQUIRE(s->drain().has_value());
        for (int i = 0; i < 2; ++i) {
            append_one(*s, {});
            REQUIRE(s->drain().has_value());
        }
        s->ack_received(s->start(), Lane::bulk, range(1, 1));
        const std::string first = files_in(dir.path() + "/bulk").at(0);
        append_one(*s, {.bulk = {20000}});
        CHECK(files_in(dir.path() + "/bulk").size() == 2);
        REQUIRE(s->sweep().has_value());
        CHECK(fs::exists(first));
        REQUIRE(s->drain().has_value());
        REQUIRE(s->sweep().has_value());
        CHECK(!fs::exists(first));
    }

    TEST_CASE("S4: part of a group in a full segment is kept until the disk says that the group is durable") {
        TempDir dir;
        auto s = must_open(small_options(dir.path()));
        for (std::uint64_t i = 1; i <= 20; ++i) {
            append_one(*s, {.live = {100}, .bulk = {25000, 25000, 25000, 25000, 25000, 25000, 25000}});
            REQUIRE(s->drain().has_value());
            s->ack_received(s->start(), Lane::live, range(1, i));
            s->ack_received(s->start(), Lane::bulk, range(1, 7 * i));
            REQUIRE(s->sweep().has_value());
            fs::remove_all(dir.path("copy"));
            fs::copy(dir.path(), dir.path("copy"), fs::copy_options::recursive);
            auto again = must_open(small_options(dir.path("copy")));
            CHECK(again->ended_starts().back().group == i);
            CHECK(again->ended_starts().back().seq[1] == 7 * i);
            CHECK(again->damage().empty());
        }
    }

    TEST_CASE("S3 S4: what recovery still needs is not deleted, however acknowledged") {
        // All acked and swept after every group: cursors and group numbers must survive all the same.
        TempDir dir;
        auto options = small_options(dir.path());
        StartId start{};
        {
            auto s = must_open(options);
            start = s->start();
            for (int i = 1; i <= 60; ++i) {
                append_one(*s, {.live = {6000},
                                .bulk = {25000},
                                .cursors = {{text_bytes("k" + std::to_string(i)), text_bytes("v")}}});
                REQUIRE(s->drain().has_value());
                s->ack_received(start, Lane::live, range(1, static_cast<std::uint64_t>(i)));
                s->ack_received(start, Lane::bulk, range(1, static_cast<std::uint64_t>(i)));
                REQUIRE(s->sweep().has_value());
                if (i % 7 != 0) continue;
                const auto copy = dir.path("copy");
                fs::remove_all(copy);
                fs::copy(dir.path(), copy, fs::copy_options::recursive);
                auto again = must_open(small_options(copy));
                CHECK(again->cursors() == s->cursors());
                CHECK(again->ended_starts().back().group == static_cast<std::uint64_t>(i));
                CHECK(again->ended_starts().back().seq[1] == static_cast<std::uint64_t>(i));
                CHECK(again->damage().empty());
            }
        }
    }
}
