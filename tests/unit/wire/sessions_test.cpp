// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "transport/wire/client_session.hpp"
#include "transport/wire/server_session.hpp"

using namespace tally;
using namespace tally::wire;

namespace {

constexpr std::int64_t ms = 1'000'000;

Hello hello() {
    Hello h;
    h.spool = Uuid::random();
    h.start = StartId{7};
    return h;
}

Bytes flat(const Output& o) {
    Bytes out = o.head;
    if (o.payload) out.insert(out.end(), o.payload->begin(), o.payload->end());
    return out;
}

ParcelId id_of(std::uint64_t seq) { return {StartId{7}, Lane::bulk, Seq{seq}}; }

}  // namespace

TEST_CASE("over sessions that are cut at any moment every parcel is landed and acknowledged in the end") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        std::mt19937_64 rng(seed);
        std::set<std::uint64_t> waiting;
        std::set<std::uint64_t> acked;
        std::map<std::uint64_t, int> landed;  // what the far end made durable
        constexpr std::uint64_t parcels = 40;
        for (std::uint64_t s = 1; s <= parcels; ++s) waiting.insert(s);
        std::int64_t now = 1;
        for (int life = 0; life < 400 && acked.size() < parcels; ++life) {
            ClientSession client(hello(), now);
            ServerSession server(now);
            std::deque<Bytes> to_server;
            std::deque<Bytes> to_client;
            std::uint64_t granted = 0;
            std::uint64_t sent = 0;
            const auto steps = rng() % 120;
            for (std::uint64_t i = 0; i < steps; ++i, now += ms) {
                for (Output& o : client.take_output()) to_server.push_back(flat(o));
                for (Output& o : server.take_output()) to_client.push_back(flat(o));
                switch (rng() % 4) {
                    case 0:
                        if (!to_server.empty()) {
                            const Bytes m = to_server.front();
                            to_server.pop_front();
                            server.on_message(m, now);
                            for (auto& e : server.take_events()) {
                                if (std::holds_alternative<Greeted>(e)) {
                                    Welcome w;
                                    w.credit_bytes = granted = 2000;
                                    IntervalSet have;
                                    for (const auto& [s, n] : landed) have.insert(s);
                                    w.known.push_back({StartId{7}, Lane::bulk, have, {}});
                                    server.welcome(w, now);
                                } else if (const auto* a = std::get_if<Arrived>(&e)) {
                                    if (landed.count(raw(a->id.seq)) == 0) landed[raw(a->id.seq)] = 1;
                                    Ack ack;
                                    IntervalSet one;
                                    one.insert(raw(a->id.seq));
                                    ack.lanes.push_back({a->id.start, a->id.lane, one, {}});
                                    server.ack(ack, now);
                                    server.grant(2000, now);
                                }
                            }
                        }
                        break;
                    case 1:
                        if (!to_client.empty()) {
                            const Bytes m = to_client.front();
                            to_client.pop_front();
                            const auto decoded = decode(m);
                            if (const auto* c = std::get_if<Credit>(&*decoded)) granted = c->credit_bytes;
                            client.on_message(m, now);
                            for (auto& e : client.take_events()) {
                                const IntervalSet* set = nullptr;
                                if (const auto* p = std::get_if<Progressed>(&e)) set = &p->sets.received;
                                if (const auto* w = std::get_if<Welcomed>(&e)) set = &w->welcome.known.at(0).received;
                                if (set == nullptr) continue;
                                for (const Interval& iv : set->intervals())
                                    for (std::uint64_t s = iv.first; s <= iv.last; ++s) {
                                        acked.insert(s);
                                        waiting.erase(s);
                                    }
                            }
                        }
                        break;
                    default:
                        if (!waiting.empty() && client.can_send(now)) {
                            const std::uint64_t s = *waiting.begin();
                            waiting.erase(waiting.begin());
                            auto payload = std::make_shared<const Bytes>(rng() % 900 + 1);
                            REQUIRE(sent < granted);  // I2: never begins a message beyond the credit
                            sent += payload->size() + parcel_prefix_bytes;
                            client.send(id_of(s), std::move(payload), now);
                        }
                }
            }
            REQUIRE(server.state() != SessionState::closed);
            REQUIRE(client.state() != SessionState::closed);
            // The cut: what this session had in flight goes back.
            for (const auto& [id, bytes] : client.in_flight())
                if (acked.count(raw(id.seq)) == 0) waiting.insert(raw(id.seq));
        }
        REQUIRE(acked.size() == parcels);
        for (const std::uint64_t s : acked) REQUIRE(landed.count(s) == 1);
    }
}

TEST_CASE("a peer that breaks the protocol is told why and heard no more") {
    ServerSession server(1);
    server.on_message(encode(Ping{1}), 2);
    CHECK(server.state() == SessionState::hello);  // pings are common to all states
    server.on_message(encode(Throttle{1}), 2);
    CHECK(server.state() == SessionState::closed);
    CHECK(server.end().reason == Reason::protocol);

    ServerSession version(1);
    Hello h = hello();
    h.version_min = 9;
    h.version_max = 9;
    version.on_message(encode(h), 2);
    CHECK(version.end().reason == Reason::version);

    ServerSession greedy(1);
    greedy.on_message(encode(hello()), 2);
    Welcome w;
    w.credit_bytes = 10;
    greedy.welcome(w, 2);
    const Bytes payload(100, 1);
    greedy.on_message(encode(Parcel{id_of(1), payload}), 3);
    CHECK(greedy.state() == SessionState::open);  // one message beyond is the agreed slack
    greedy.on_message(encode(Parcel{id_of(2), payload}), 3);
    CHECK(greedy.state() == SessionState::closed);
}

TEST_CASE("a silent peer ends the session: no hello in 10 s, nothing for three ping periods") {
    ServerSession quiet(0);
    quiet.on_tick(hello_timeout_ns + 1);
    CHECK(quiet.state() == SessionState::closed);

    ClientSession client(hello(), 0);
    Welcome w;
    w.credit_bytes = 1;
    w.ping_ms = 1000;
    client.on_message(encode(w), 0);
    client.take_output();
    client.on_tick(1500 * ms);
    CHECK(client.take_output().size() == 1);  // a ping
    client.on_tick(3500 * ms);
    CHECK(client.state() == SessionState::closed);
}
