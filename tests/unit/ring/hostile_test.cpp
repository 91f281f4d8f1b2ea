// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/unit/ring/fixture.hpp"

using namespace tally;
using namespace tally::ring;
using namespace tally::ring::test;

namespace {

// Reads until empty or fault; the number of records that came out.
int read_all(Consumer& consumer) {
    Bytes scratch;
    int n = 0;
    for (;;) {
        const auto record = consumer.next(scratch);
        if (!record || !record->has_value()) return n;
        ++n;
    }
}

struct Case {
    const char* name;
    std::function<void(RecordHeader&)> change;
};

}  // namespace

TEST_CASE("each lie in a record header stops the reader before that record, with all before it intact") {
    const Case cases[] = {
        {"length 0", [](RecordHeader& h) { h.bytes = 0; }},
        {"length below the header", [](RecordHeader& h) { h.bytes = 40; }},
        {"length not a multiple of 8", [](RecordHeader& h) { h.bytes += 4; }},
        {"length beyond head", [](RecordHeader& h) { h.bytes = 16384; }},
        {"length beyond a quarter", [](RecordHeader& h) { h.bytes = 32768; }},
        {"length 4 GiB", [](RecordHeader& h) { h.bytes = 0xFFFFFFF8; }},
        {"number repeated", [](RecordHeader& h) { h.number = 1; }},
        {"number skipped", [](RecordHeader& h) { h.number = 3; }},
        {"number 0", [](RecordHeader& h) { h.number = 0; }},
        {"points too many", [](RecordHeader& h) { h.points_total += 1; }},
        {"points below zero", [](RecordHeader& h) { h.points_total = 0; }},
        {"unknown kind", [](RecordHeader& h) { h.kind = static_cast<RecordKind>(99); }},
        {"kind 0", [](RecordHeader& h) { h.kind = static_cast<RecordKind>(0); }},
        {"kind of another body", [](RecordHeader& h) { h.kind = RecordKind::frame; }},
        {"unknown flag", [](RecordHeader& h) { h.flags = 0x80; }},
        {"rl_step without flag", [](RecordHeader& h) { h.rl_step = 5; }},
        {"reserved", [](RecordHeader& h) { h.reserved = 1; }},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        Ring ring;
        put_series(ring.producer, 0, Dtype::f64, "a");
        REQUIRE(ring.log(1, {{0, 0, 1}}));
        const std::uint64_t second = ring.producer.head();
        REQUIRE(ring.log(2, {{0, 0, 2}}));
        REQUIRE(ring.log(3, {{0, 0, 3}}));
        ring.spoil(second, c.change);
        const Mapping mapping = ring.map();
        auto consumer = Consumer::open(mapping, 0, 0, 0);
        CHECK(read_all(*consumer) == 1);
        CHECK(consumer->fault().has_value());
        CHECK(consumer->lost_points() == 2);
        CHECK(consumer->pending() == 0);
        CHECK(read_all(*consumer) == 0);        // I3: sticky
        consumer->set_tail(consumer->position());  // what was read may still be committed
    }
}

TEST_CASE("an optional record of an unknown kind is skipped and counted") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    REQUIRE(ring.log(1, {{0, 0, 1}}));
    ring.spoil(0, [](RecordHeader& h) {
        h.kind = static_cast<RecordKind>(77);
        h.flags = flag_optional;
    });
    REQUIRE(ring.log(2, {{0, 0, 2}}));
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    CHECK(read_all(*consumer) == 2);
    CHECK(consumer->skipped() == 1);
}

TEST_CASE("a skipped record that reaches beyond head does not carry the reader there") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    REQUIRE(ring.log(1, {{0, 0, 1}}));
    ring.spoil(0, [](RecordHeader& h) {
        h.kind = static_cast<RecordKind>(77);
        h.flags = flag_optional;
        h.bytes += 8;
    });
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    CHECK(read_all(*consumer) == 0);
    CHECK(consumer->fault().has_value());
    CHECK(consumer->position() == 0);
}

TEST_CASE("a head that jumps, goes back or loses its alignment is corruption, not a read outside the ring") {
    const std::uint64_t good = 80;
    for (const std::uint64_t head : {std::uint64_t{0}, good + 4, data_bytes_min + 8, std::uint64_t{1} << 40, UINT64_MAX,
                                     UINT64_MAX - 7}) {
        CAPTURE(head);
        Ring ring;
        put_series(ring.producer, 0, Dtype::f64, "a");
        REQUIRE(ring.log(1, {{0, 0, 1}}));
        const Mapping mapping = ring.map();
        auto consumer = Consumer::open(mapping, 0, 0, 0);
        CHECK(read_all(*consumer) == 1);
        ring.control().producer.head.store(head);
        CHECK(read_all(*consumer) == 0);
        CHECK(consumer->fault().has_value());
    }
}

TEST_CASE("a producer that scribbles over the agent's own words does not move the reader") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    REQUIRE(ring.log(1, {{0, 0, 1}}));
    ring.control().consumer.tail.store(UINT64_MAX);
    ring.control().consumer.received.store(12345);
    CHECK(read_all(*consumer) == 1);
    CHECK(!consumer->fault());
    // And a tail beyond head is not believed by the producer either (I2 of producer.hpp).
    std::uint64_t written = 0;
    while (ring.log(1, {{0, 0, 1}})) ++written;
    CHECK(written < data_bytes_min / 80);
}

TEST_CASE("a body changed after it was copied changes nothing") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    REQUIRE(ring.log(1, {{0, 0, 42}}));
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    Bytes scratch;
    const auto record = consumer->next(scratch);
    std::memset(ring.pages.data, 0xFF, 4096);
    ScalarValue value;
    std::memcpy(&value, (*record)->body.data() + sizeof(ScalarBody), sizeof(value));
    CHECK(value.bits == 42);
}

namespace {

struct FrameCase {
    const char* name;
    std::function<void(FrameBody&)> change;
};

// One dense frame of 2 metrics x 3 environments f32, 1 step.
bool frame_accepted(const std::function<void(FrameBody&)>& change, const std::vector<std::uint32_t>& rows = {}) {
    Ring ring(RingKind::block, 1 << 20);
    put_block(ring.producer, 3, {{Dtype::f32, "a"}, {Dtype::f32, "b"}});
    FrameBody body{1, 0, 2, 1, 10, 1, static_cast<std::uint32_t>(rows.size()), rows.empty() ? 0U : 1U};
    const std::uint64_t n = rows.empty() ? 3 : rows.size();
    const std::uint64_t bytes = sizeof(body) + padded(rows.size() * 4) + 2 * padded(n * 4);
    change(body);
    std::uint8_t* at = ring.producer.claim(bytes);
    std::memset(at, 0, bytes);
    std::memcpy(at, &body, sizeof(body));
    if (!rows.empty()) std::memcpy(at + sizeof(body), rows.data(), rows.size() * 4);
    RecordMeta meta;
    meta.kind = RecordKind::frame;
    meta.points = 2 * n;
    ring.producer.commit(meta);
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    return consumer && read_all(*consumer) == 1;
}

}  // namespace

TEST_CASE("each lie in a frame is refused: block, metrics, steps, strides, rows, lengths") {
    CHECK(frame_accepted([](FrameBody&) {}));
    CHECK(frame_accepted([](FrameBody&) {}, {2, 0, 2, 1}));
    CHECK(!frame_accepted([](FrameBody&) {}, {0, 3}));  // environment 3 of 3
    const FrameCase cases[] = {
        {"block", [](FrameBody& f) { f.block = 2; }},
        {"no metrics", [](FrameBody& f) { f.metrics = 0; }},
        {"metrics beyond", [](FrameBody& f) { f.metrics = 3; }},
        {"metric_first beyond", [](FrameBody& f) { f.metric_first = 1; }},
        {"metric_first wraps", [](FrameBody& f) { f.metric_first = UINT32_MAX; }},
        {"no steps", [](FrameBody& f) { f.steps = 0; }},
        {"more steps", [](FrameBody& f) { f.steps = 2; }},
        {"steps wrap the length", [](FrameBody& f) { f.steps = 0x80000001; }},
        {"stride 0", [](FrameBody& f) { f.step_stride = 0; }},
        {"stride of one step", [](FrameBody& f) { f.step_stride = 2; }},
        {"step overflow", [](FrameBody& f) { f.step_first = INT64_MAX, f.steps = 2; }},
        {"rows without list", [](FrameBody& f) { f.rows = 3; }},
        {"listed flag 2", [](FrameBody& f) { f.rows_listed = 2; }},
        {"empty list", [](FrameBody& f) { f.rows_listed = 1; }},
        {"huge list", [](FrameBody& f) { f.rows_listed = 1, f.rows = UINT32_MAX; }},
    };
    for (const FrameCase& c : cases) {
        CAPTURE(c.name);
        CHECK(!frame_accepted(c.change));
    }
}

TEST_CASE("scalars of an unregistered series, episodes of absurd length and short events are refused") {
    {
        Ring ring;
        REQUIRE(ring.log(1, {{0, 0, 1}}));
        const Mapping mapping = ring.map();
        auto consumer = Consumer::open(mapping, 0, 0, 0);
        CHECK(read_all(*consumer) == 0);
        CHECK(consumer->fault().has_value());
    }
    struct Body {
        RecordKind kind;
        Bytes bytes;
    };
    const auto bytes_of = [](auto&&... parts) {
        Bytes out;
        ByteWriter w(out);
        (w.put(parts), ...);
        return out;
    };
    const Body bodies[] = {
        {RecordKind::episodes, bytes_of(EpisodeBody{0, 1, 1, 0}, std::uint64_t{0}, std::int64_t{0}, std::int64_t{-1}, 1.0)},
        {RecordKind::episodes, bytes_of(EpisodeBody{INT64_MIN, 1, 1, 0}, std::uint64_t{0}, std::int64_t{0}, std::int64_t{5}, 1.0)},
        {RecordKind::episodes, bytes_of(EpisodeBody{0, 0, 1, 0}, std::uint64_t{0}, std::int64_t{0}, std::int64_t{5}, 1.0)},
        {RecordKind::episodes, bytes_of(EpisodeBody{0, 1, 0x20000000, 0})},
        {RecordKind::event, bytes_of(EventBody{65535, 65535, 0xFFFFFFFF})},
        {RecordKind::event, bytes_of(std::uint64_t{0}, std::uint64_t{0})},
        {RecordKind::rewind, Bytes{}},
        {RecordKind::close, bytes_of(std::uint64_t{0}, std::uint64_t{0})},
        {RecordKind::file, bytes_of(std::uint64_t{0})},
    };
    for (const Body& b : bodies) {
        CAPTURE(static_cast<int>(b.kind));
        Ring ring;
        std::uint8_t* at = ring.producer.claim(b.bytes.size());
        if (!b.bytes.empty()) std::memcpy(at, b.bytes.data(), b.bytes.size());
        RecordMeta meta;
        meta.kind = b.kind;
        ring.producer.commit(meta);
        const Mapping mapping = ring.map();
        auto consumer = Consumer::open(mapping, 0, 0, 0);
        CHECK(read_all(*consumer) == 0);
        CHECK(consumer->fault().has_value());
    }
}
