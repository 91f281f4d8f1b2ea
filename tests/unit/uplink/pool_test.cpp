// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>
#include <set>

#include "transport/uplink/endpoint.hpp"
#include "transport/uplink/pool.hpp"

using namespace tally;
using namespace tally::uplink;

namespace {

ParcelId id_of(std::uint64_t seq) { return {StartId{1}, Lane::bulk, Seq{seq}}; }
Outbound parcel(std::uint64_t seq) { return {id_of(seq), std::make_shared<const Bytes>(seq % 50 + 1)}; }

}  // namespace

TEST_CASE("I1: whatever order they are taken, given back, acknowledged and refused in, each parcel is held until it is over") {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        std::mt19937_64 rng(seed);
        Pool pool(1 << 20);
        std::set<std::uint64_t> held;
        std::set<std::uint64_t> flying;
        std::uint64_t next = 1;
        for (int i = 0; i < 2000; ++i) {
            const std::uint64_t some = next == 1 ? 1 : rng() % next;
            switch (rng() % 5) {
                case 0:
                    pool.add(parcel(next));
                    held.insert(next++);
                    break;
                case 1:
                    if (pool.waiting()) {
                        const std::uint64_t seq = raw(pool.take().id.seq);
                        REQUIRE(held.contains(seq));
                        REQUIRE(flying.insert(seq).second);  // never in two places
                    }
                    break;
                case 2:
                    pool.give_back(id_of(some));
                    flying.erase(some);
                    break;
                case 3: {
                    IntervalSet acked;
                    acked.insert(some, some + 2);
                    pool.landed(StartId{1}, Lane::bulk, acked);
                    pool.landed(StartId{2}, Lane::bulk, acked);  // another start's
                    pool.landed(StartId{1}, Lane::live, acked);  // another lane's
                    for (std::uint64_t s = some; s <= some + 2; ++s) {
                        held.erase(s);
                        flying.erase(s);
                    }
                    break;
                }
                default:
                    CHECK(pool.remove(id_of(some)).has_value() == held.contains(some));
                    held.erase(some);
                    flying.erase(some);
            }
            std::uint64_t bytes = 0;
            for (const std::uint64_t s : held) bytes += s % 50 + 1;
            REQUIRE(pool.held_bytes() == bytes);
            REQUIRE(pool.waiting() == (held.size() > flying.size()));
        }
    }
}

TEST_CASE("an endpoint is read whole or refused") {
    const auto good = [](const char* url, bool tls, const char* host, const char* port, bool loopback) {
        INFO(url);
        const auto e = parse_endpoint(url);
        REQUIRE(e.has_value());
        CHECK(e->tls == tls);
        CHECK(e->host == host);
        CHECK(e->port == port);
        CHECK(e->loopback() == loopback);
    };
    good("ws://127.0.0.1:7411", false, "127.0.0.1", "7411", true);
    good("wss://collector.example.com:443", true, "collector.example.com", "443", false);
    good("ws://[::1]:9", false, "::1", "9", true);
    good("ws://localhost:9", false, "localhost", "9", true);
    good("ws://127.8.8.8", false, "127.8.8.8", "80", true);
    good("ws://127.example.com:9", false, "127.example.com", "9", false);
    for (const char* url : {"", "http://a", "ws://", "ws://:1", "ws://a:0", "ws://a:65536", "ws://a:b", "ws://[::1", "ws://a:1/x", "ws://u@a:1"}) {
        INFO(url);
        CHECK(!parse_endpoint(url).has_value());
    }
}
