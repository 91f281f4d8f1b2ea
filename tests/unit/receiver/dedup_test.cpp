// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "transport/receiver/dedup.hpp"

using namespace tally;
using namespace tally::receiver;

TEST_SUITE("receiver dedup") {
    TEST_CASE("I1: random arrivals, aborts, commits and restarts are judged as a model judges them") {
        std::mt19937_64 random(7);
        const LaneKey key{Uuid::random(), StartId{9}, Lane::bulk};
        Dedup dedup;
        std::map<std::uint64_t, std::uint64_t> pending;
        std::set<std::uint64_t> landed;
        for (int i = 0; i < 20'000; ++i) {
            const std::uint64_t seq = 1 + random() % 500;
            const std::uint64_t hash = seq * 31;
            const Verdict expected = pending.contains(seq)  ? Verdict::pending
                                     : landed.contains(seq) ? Verdict::duplicate
                                                            : Verdict::fresh;
            REQUIRE(dedup.judge(key, Seq{seq}, hash) == expected);
            if (expected == Verdict::fresh) {
                dedup.begin(key, Seq{seq}, hash);
                pending[seq] = hash;
                CHECK(!dedup.received(key).contains(seq));
                CHECK(dedup.judge(key, Seq{seq}, hash + 1) == Verdict::conflict);
            } else if (expected == Verdict::pending) {
                if (random() % 3 == 0) {
                    dedup.abort(key, Seq{seq});
                } else {
                    dedup.commit(key, Seq{seq});
                    landed.insert(seq);
                    CHECK(dedup.judge(key, Seq{seq}, hash + 1) == Verdict::conflict);
                }
                pending.erase(seq);
            }
            if (pending.empty() && random() % 8 == 0) {
                Dedup next;
                REQUIRE(next.restore(Dedup::cursor_key(key), dedup.cursor_value(key)).has_value());
                dedup = std::move(next);
            }
        }
        CHECK(dedup.received(key).count() == landed.size());
    }

    TEST_CASE("I2: a cursor value holds what is pending; a cut one is refused") {
        const LaneKey key{Uuid::random(), StartId{1}, Lane::live};
        Dedup dedup;
        dedup.begin(key, Seq{5}, 55);
        const Bytes value = dedup.cursor_value(key);
        Dedup next;
        REQUIRE(next.restore(Dedup::cursor_key(key), value).has_value());
        CHECK(next.judge(key, Seq{5}, 55) == Verdict::duplicate);
        CHECK(next.judge(key, Seq{5}, 56) == Verdict::conflict);
        for (std::size_t n = 0; n < value.size(); ++n)
            CHECK(!Dedup{}.restore(Dedup::cursor_key(key), ByteView(value).first(n)).has_value());
    }
}
