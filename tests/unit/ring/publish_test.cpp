// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include "tests/unit/ring/fixture.hpp"

using namespace tally;
using namespace tally::ring;
using namespace tally::ring::test;

TEST_CASE("the worked example of LAYOUT.md comes out byte for byte") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f32, "loss");
    REQUIRE(ring.log(7, {{0, 0, 0x3fc00000}}));
    const std::uint8_t golden[80] = {
        0x50, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xe4, 0x0b, 0x54, 2, 0, 0, 0,
        0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0,    0,    0,    0, 0, 0, 0,
        0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0};
    CHECK(std::memcmp(ring.pages.data, golden, sizeof(golden)) == 0);
    CHECK(ring.control().producer.head.load() == 80);
    CHECK(ring.control().producer.records.load() == 1);
    CHECK(ring.control().producer.points.load() == 1);
    CHECK(std::memcmp(&ring.control(), "TALYRNG1", 8) == 0);
}

TEST_CASE("a record is read as it was written, and its registry before it") {
    Ring ring;
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    REQUIRE(consumer.has_value());
    Bytes scratch;
    CHECK(!consumer->next(scratch)->has_value());
    put_series(ring.producer, 0, Dtype::f64, "a");
    put_series(ring.producer, 1, Dtype::i64, "b");
    REQUIRE(ring.log(3, {{0, 0, 11}, {1, 0, 22}}));
    auto record = consumer->next(scratch);
    REQUIRE(record.has_value());
    REQUIRE(record->has_value());
    CHECK((*record)->points == 2);
    CHECK((*record)->header.number == 1);
    ScalarBody body;
    std::memcpy(&body, (*record)->body.data(), sizeof(body));
    CHECK(body.step == 3);
    CHECK(consumer->registry().series().size() == 2);
    CHECK(consumer->registry().series()[1].name == "b");
    CHECK(consumer->registry().producer()->run == "run-1");
    CHECK(!consumer->next(scratch)->has_value());
}

TEST_CASE("I2 a full ring takes nothing until the tail moves, then wraps without splitting a record") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    const std::vector<ScalarValue> values(300, ScalarValue{0, 0, 42});
    std::uint64_t written = 0;
    std::uint64_t read = 0;
    Bytes scratch;
    for (int round = 0; round < 50; ++round) {
        while (ring.log(static_cast<std::int64_t>(written), values)) ++written;
        CHECK(!ring.log(0, values));
        std::uint64_t end = 0;
        for (;;) {
            const auto record = consumer->next(scratch);
            REQUIRE(record.has_value());
            if (!record->has_value()) break;
            ScalarBody body;
            std::memcpy(&body, (*record)->body.data(), sizeof(body));
            CHECK(body.step == static_cast<std::int64_t>(read++));
            end = (*record)->end;
        }
        CHECK(!ring.log(0, values));  // read is not free: only the tail frees
        consumer->set_tail(end);
    }
    CHECK(read == written);
    CHECK(consumer->points() == written * 300);
}

TEST_CASE("I3 an aborted claim leaves nothing, and a second claim is refused while one is open") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    std::uint8_t* body = ring.producer.claim(100);
    REQUIRE(body != nullptr);
    std::memset(body, 0xFF, 100);
    CHECK(ring.producer.claim(8) == nullptr);
    ring.producer.abort();
    CHECK(ring.control().producer.head.load() == 0);
    REQUIRE(ring.log(1, {{0, 0, 1}}));
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    Bytes scratch;
    CHECK(consumer->next(scratch)->has_value());
    CHECK(ring.producer.claim(ring.producer.body_bytes_max() + 1) == nullptr);
}

TEST_CASE("I1 a producer killed between claim and commit leaves every committed record and nothing else") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    // The pages are not inherited (DONTFORK), so the child maps the file again, as a trainer of its own would.
    const pid_t child = ::fork();
    if (child == 0) {
        Pages pages;
        if (map_pages(ring.fd.get(), data_bytes_min, 64 * 1024, Access::producer, pages) != 0) ::_exit(1);
        Producer p(pages);
        for (int i = 0; i < 5; ++i) {
            std::uint8_t* body = p.claim(sizeof(ScalarBody) + sizeof(ScalarValue));
            const ScalarBody head{i, 1, 0};
            const ScalarValue value{0, 0, 1};
            std::memcpy(body, &head, sizeof(head));
            std::memcpy(body + sizeof(head), &value, sizeof(value));
            RecordMeta meta;
            meta.points = 1;
            if (i == 4) ::kill(::getpid(), SIGKILL);
            p.commit(meta);
        }
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    Bytes scratch;
    for (int i = 0; i < 4; ++i) CHECK(consumer->next(scratch)->has_value());
    CHECK(!consumer->next(scratch)->has_value());
    CHECK(!consumer->fault());
}

TEST_CASE("a consumer continues after its cursor, and after the ring's own tail without one") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    for (int i = 0; i < 5; ++i) REQUIRE(ring.log(i, {{0, 0, 1}, {0, 0, 2}}));
    const Mapping mapping = ring.map();
    Bytes scratch;
    std::uint64_t end = 0;
    {
        auto first = Consumer::open(mapping, 0, 0, 0);
        for (int i = 0; i < 3; ++i) end = (**first->next(scratch)).end;
        first->set_tail(end);
    }
    auto after_cursor = Consumer::open(mapping, end, 3, 6);
    CHECK((**after_cursor->next(scratch)).header.number == 4);
    auto at_tail = Consumer::open_at_tail(mapping);
    CHECK((**at_tail->next(scratch)).header.number == 4);
    CHECK((**at_tail->next(scratch)).header.points_total == 10);
    auto wrong_cursor = Consumer::open(mapping, end, 2, 6);
    CHECK(!wrong_cursor->next(scratch).has_value());
}

TEST_CASE("a cursor behind the tail is followed while nothing was overwritten; then reading jumps to the tail and says from where") {
    Ring ring;
    REQUIRE(put_series(ring.producer, 0, Dtype::u64, "a"));
    const Mapping mapping = ring.map();
    Bytes scratch;
    {
        auto first = Consumer::open(mapping, 0, 0, 0);
        REQUIRE(first);
        for (std::int64_t i = 0; i < 10; ++i) REQUIRE(ring.log(i, {{0, 0, 7}}));
        std::uint64_t end = 0;
        for (int i = 0; i < 10; ++i) end = (*first->next(scratch))->end;
        first->set_tail(end);
    }
    const auto read_all = [&](Consumer& c, std::vector<std::int64_t>& steps) {
        while (true) {
            const auto view = c.next(scratch);
            REQUIRE(view);
            if (!*view) return;
            std::int64_t step = 0;
            std::memcpy(&step, (*view)->body.data(), sizeof step);
            steps.push_back(step);
        }
    };
    std::vector<std::int64_t> steps;
    const std::uint64_t tail = ring.control().consumer.tail.load();
    const std::uint64_t record_bytes = tail / 10;
    auto older = Consumer::open(mapping, 4 * record_bytes, 4, 4);
    REQUIRE(older);
    REQUIRE(ring.log(10, {{0, 0, 7}}));
    read_all(*older, steps);
    CHECK(steps == std::vector<std::int64_t>{4, 5, 6, 7, 8, 9, 10});
    CHECK_FALSE(older->take_jump());
    older->set_tail(tail - record_bytes);  // lower than what the producer was given back already
    CHECK(ring.control().consumer.tail.load() == tail);

    std::int64_t step = 11;
    while (ring.producer.head() <= ring.pages.data_bytes * 3 / 4 + 4 * record_bytes) REQUIRE(ring.log(step++, {{0, 0, 7}}));
    steps.clear();
    auto late = Consumer::open(mapping, 4 * record_bytes, 4, 4);
    REQUIRE(late);
    read_all(*late, steps);
    CHECK(late->take_jump() == std::optional<std::uint64_t>(4));
    CHECK_FALSE(late->take_jump());
    REQUIRE(!steps.empty());
    CHECK(steps.front() == 10);
    CHECK(steps.back() == step - 1);
    CHECK(late->points() == static_cast<std::uint64_t>(step));
}

TEST_CASE("I4 stored, received and tail reach the producer's words and never go back") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    REQUIRE(ring.log(1, {{0, 0, 1}}));
    REQUIRE(ring.log(2, {{0, 0, 1}}));
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    Bytes scratch;
    const std::uint64_t one = (**consumer->next(scratch)).end;
    const std::uint64_t two = (**consumer->next(scratch)).end;
    consumer->set_tail(two);
    consumer->set_received(two);
    consumer->set_stored(one);
    consumer->set_received(one);
    consumer->wake_waiters();
    const ConsumerPart& words = ring.control().consumer;
    CHECK(words.tail.load() == two);
    CHECK(words.received.load() == two);
    CHECK(words.stored.load() == one);
    CHECK(words.progress.load() == 1);
}

TEST_CASE("drops share a slot while nothing is published between, and the last slot widens when all are used") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    ring.producer.count_drop(0, DropReason::ring_full, 5, 5, 3);
    ring.producer.count_drop(0, DropReason::ring_full, 6, 8, 4);
    REQUIRE(consumer->drops().size() == 1);
    CHECK(consumer->drops()[0].step_first == 5);
    CHECK(consumer->drops()[0].step_last == 8);
    CHECK(consumer->drops()[0].points == 7);
    for (int i = 0; i < 100; ++i) {
        REQUIRE(ring.log(i, {{0, 0, 1}}));
        ring.producer.count_drop(0, DropReason::ring_full, 100 + i, 100 + i, 1);
    }
    const auto drops = consumer->drops();
    REQUIRE(drops.size() == drop_slots);
    CHECK(drops.back().block == UINT32_MAX);
    CHECK(drops.back().step_last == 199);
    std::uint64_t points = 0;
    for (const DropEntry& d : drops) points += d.points;
    CHECK(points == 107);
    CHECK(consumer->dropped_points() == 107);
}

TEST_CASE("flush and store requests are seen once each, and closing after the last record reads as drained") {
    Ring ring;
    put_series(ring.producer, 0, Dtype::f64, "a");
    const Mapping mapping = ring.map();
    auto consumer = Consumer::open(mapping, 0, 0, 0);
    CHECK(!consumer->take_flush_asked());
    ring.control().producer.flush_asked.fetch_add(1);
    CHECK(consumer->take_flush_asked());
    CHECK(!consumer->take_flush_asked());
    ring.control().producer.store_asked.fetch_add(1);
    CHECK(consumer->take_store_asked());
    REQUIRE(ring.log(1, {{0, 0, 1}}));
    ring.producer.close();
    CHECK(consumer->closed());
    CHECK(!consumer->drained());
    Bytes scratch;
    CHECK(consumer->next(scratch)->has_value());
    CHECK(consumer->drained());
    CHECK(!ring.producer.agent_asleep());
    consumer->announce_sleep(true);
    CHECK(ring.producer.agent_asleep());
}
