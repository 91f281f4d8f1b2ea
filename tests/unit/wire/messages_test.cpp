// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/messages.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tally;
using namespace tally::wire;

namespace {

std::string hex(const Bytes& bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (const auto b : bytes) {
        out += digits[b >> 4];
        out += digits[b & 15];
    }
    return out;
}

IntervalSet set(std::uint64_t first, std::uint64_t last) {
    IntervalSet s;
    s.insert(first, last);
    return s;
}

std::vector<Message> one_of_each(const Bytes& payload) {
    Hello hello;
    hello.start = StartId{7};
    hello.spool.bytes[0] = 1;
    hello.agent_version = "v";
    hello.host = "h";
    hello.lanes.push_back({StartId{7}, Lane::bulk, 1, 9});
    Welcome welcome;
    welcome.credit_bytes = 1 << 20;
    welcome.known.push_back({StartId{7}, Lane::live, set(1, 4), {}});
    Ack ack;
    ack.lanes.push_back({StartId{7}, Lane::bulk, set(2, 3), set(1, 1)});
    ack.refused.push_back({{StartId{7}, Lane::bulk, Seq{5}}, 0xFFFF, Reason::corrupt, "why"});
    return {hello, welcome, Parcel{{StartId{7}, Lane::bulk, Seq{3}}, payload}, ack, Credit{1 << 20},
            Nack{{StartId{7}, Lane::bulk, Seq{3}}, Reason::full, 1000, "no room"}, Throttle{50}, Ping{5}, Pong{5},
            GoAway{Reason::draining, 5000, "bye"}, Flush{2}};
}

}  // namespace

TEST_CASE("the bytes of PROTOCOL.md's worked examples, and one of each kind, did not change") {
    CHECK(hex(encode(Ping{5})) == "08000000080000000500000000000000");
    CHECK(hex(encode(Credit{1 << 20})) == "05000000080000000000100000000000");
    const Bytes payload{0xAA, 0xBB};
    CHECK(hex(encode(Parcel{{StartId{7}, Lane::bulk, Seq{3}}, payload})) ==
          "030000001a000000" "0700000000000000" "0100000000000000" "0300000000000000" "aabb");
    CHECK(hex(encode(Flush{2})) == "0b0100000100000002");
    CHECK(hex(encode(Throttle{50})) == "070000000400000032000000");
    CHECK(hex(encode(GoAway{Reason::draining, 5000, "bye"})) == "0a0000000b0000000a00881300000300627965");
}

TEST_CASE("every message survives a round trip, and every cut of it is refused") {
    const Bytes payload(100, 0x5A);
    for (const Message& m : one_of_each(payload)) {
        const Bytes bytes = encode(m);
        const auto back = decode(bytes);
        REQUIRE(back);
        CHECK(back->index() == m.index());
        CHECK(encode(*back) == bytes);
        for (std::size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decode(ByteView(bytes).first(n)));
    }
}

TEST_CASE("an unknown kind is skipped if optional and refused otherwise") {
    Bytes bytes = encode(Ping{1});
    bytes[0] = 99;
    CHECK(decode(bytes).error().code == Code::unsupported);
    bytes[1] = 1;
    REQUIRE(decode(bytes));
    CHECK(std::holds_alternative<Skipped>(*decode(bytes)));
}

TEST_CASE("a newer peer's longer body is fine, a hostile count reserves nothing") {
    Bytes longer = encode(Throttle{50});
    longer.push_back(1);
    longer[4] = 5;
    CHECK(decode(longer));
    Bytes ack = encode(Ack{});
    ack[8] = 0xFF;
    ack[9] = 0xFF;
    ack[10] = 0xFF;
    CHECK_FALSE(decode(ack));
}

TEST_CASE("reasons that park a parcel are exactly those of the protocol") {
    for (int r = 0; r <= 12; ++r) {
        const auto reason = static_cast<Reason>(r);
        const bool parks = r == 4 || r == 5 || r == 6 || r == 7 || r == 12;
        CHECK(refused_for_good(reason) == parks);
        CHECK(std::string(reason_name(reason)) != "unknown");
    }
}
