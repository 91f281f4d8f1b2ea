// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "agent/base/clock.hpp"
#include "agent/parcel/parcel.hpp"
#include "transport/receiver/lander.hpp"

using namespace tally;
using namespace tally::receiver;

namespace {

struct TempDir {
    std::string path;
    TempDir() {
        char name[] = "/tmp/tally-lander-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~TempDir() { std::filesystem::remove_all(path); }
};

const Uuid sender = Uuid::random();

Arrival arrival(SessionKey session, std::uint64_t seq, std::int64_t created = 1) {
    parcel::ParcelBuilder builder;
    Bytes bytes = builder.finish(Lane::bulk, 0, created);
    parcel::Identity identity;
    identity.spool = sender;
    identity.id = ParcelId{StartId{3}, Lane::bulk, Seq{seq}};
    identity.group = GroupNo{1};
    parcel::stamp(bytes, identity);
    Arrival a;
    a.session = session;
    a.spool = sender;
    a.id = identity.id;
    a.xxh3 = parcel::peek(bytes)->header.xxh3;
    a.payload = std::make_shared<const Bytes>(std::move(bytes));
    return a;
}

struct Life {
    LanderQueues queues;
    std::unique_ptr<Lander> lander;
    explicit Life(const std::string& dir, bool has_sink = false) {
        LanderOptions o;
        o.landing.dir = dir;
        o.landing.reserve_free_bytes = 0;
        o.has_sink = has_sink;
        auto made = Lander::open(o, queues);
        REQUIRE(made.has_value());
        lander = std::move(*made);
    }
    std::vector<Answer> settle() {
        REQUIRE(lander->poll(monotonic_ns()).has_value());
        REQUIRE(lander->drain().has_value());
        REQUIRE(lander->poll(monotonic_ns()).has_value());
        std::vector<Answer> out;
        while (auto a = queues.answers.pop()) out.push_back(std::move(*a));
        return out;
    }
};

}  // namespace

TEST_SUITE("receiver lander") {
    TEST_CASE("I1: one parcel over two sessions and after a restart lands once, and each sender is answered") {
        TempDir dir;
        {
            Life life(dir.path);
            for (SessionKey s : {1, 2}) REQUIRE(life.queues.arrivals.push(arrival(s, 1)));
            const auto answers = life.settle();
            REQUIRE(answers.size() == 2);
            for (const Answer& a : answers) CHECK(a.kind == Answer::Kind::received);
            CHECK(life.lander->stats().parcels == 1);
            CHECK(life.lander->stats().duplicates == 1);
        }
        Life life(dir.path);
        REQUIRE(life.queues.arrivals.push(arrival(3, 1)));
        const auto answers = life.settle();
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].kind == Answer::Kind::received);
        CHECK(life.lander->stats().parcels == 0);
        CHECK(life.lander->landing().fetch(Lane::live, 1 << 20)->size() == 1);
    }

    TEST_CASE("landed and stored are counted apart, over a restart too") {
        TempDir dir;
        {
            Life life(dir.path, true);
            for (std::uint64_t seq : {1, 2, 3}) REQUIRE(life.queues.arrivals.push(arrival(1, seq)));
            CHECK(life.settle().size() == 3);
            CHECK(life.lander->counts().landed == 3);
            CHECK(life.lander->counts().stored == 0);
            std::vector<Landed> fed;
            life.settle();
            while (auto l = life.queues.landed.pop()) fed.push_back(std::move(*l));
            REQUIRE(fed.size() == 3);
            StoredNotice notice{fed[0].start, {}};
            notice.seqs.insert(raw(fed[0].seq), raw(fed[1].seq));
            REQUIRE(life.queues.stored.push(std::move(notice)));
            life.settle();
            CHECK(life.lander->counts().landed == 3);
            CHECK(life.lander->counts().stored == 2);
        }
        Life life(dir.path, true);
        CHECK(life.lander->counts().landed == 1);
        CHECK(life.lander->counts().stored == 0);
        life.settle();
        life.settle();
        const auto left = life.queues.landed.pop();
        REQUIRE(left);
        StoredNotice notice{left->start, {}};
        notice.seqs.insert(raw(left->seq));
        REQUIRE(life.queues.stored.push(std::move(notice)));
        life.settle();
        CHECK(life.lander->counts().stored == 1);
    }

    TEST_CASE("the same identity with other content is refused as a conflict") {
        TempDir dir;
        Life life(dir.path);
        REQUIRE(life.queues.arrivals.push(arrival(1, 1, 1)));
        CHECK(life.settle().size() == 1);
        REQUIRE(life.queues.arrivals.push(arrival(1, 1, 2)));
        const auto answers = life.settle();
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].kind == Answer::Kind::refused);
        CHECK(answers[0].reason == wire::Reason::conflict);
    }
}
