// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "agent/base/hash.hpp"
#include "agent/parcel/row_hash.hpp"
#include "tests/unit/intake/kit.hpp"

using namespace tally;
using namespace tally::intake;
using namespace tally::intake::kit;
using parcel::ProducerEnd;
using parcel::ProducerWhat;

namespace {

Bytes close_body(std::int32_t exit_code, std::uint32_t rings_used = 0) {
    Bytes out;
    ByteWriter(out).put(ring::CloseBody{exit_code, rings_used});
    return out;
}

Bytes rewind_body(std::int64_t fork_step) {
    Bytes out;
    ByteWriter(out).put(ring::RewindBody{fork_step});
    return out;
}

std::vector<ProducerWhat> whats(const Content& c) {
    std::vector<ProducerWhat> out;
    for (const auto& [origin, r] : c.producers)
        if (r.what != ProducerWhat::heartbeat) out.push_back(r.what);
    return out;
}

std::unique_ptr<Intake> next_life(const Content& content) {
    auto out = std::make_unique<Intake>(Options{});
    for (const auto& [key, value] : content.cursors) REQUIRE(out->restore(key, value));
    return out;
}

void cut(Intake& intake, Content& content) {
    const auto batch = intake.cut(50);
    REQUIRE(batch);
    content.add(*batch);
}

// Every cursor says that its producer finished.
bool all_closed(const Content& content) {
    return std::all_of(content.cursors.begin(), content.cursors.end(),
                       [](const auto& c) { return decode_cursor(c.second)->end == RingEnd::closed; });
}

RingInfo scalar_with_series(std::uint8_t ring = 1) {
    RingInfo info = scalar_info(ring);
    info.series = {{Dtype::u8, "a"}};
    return info;
}

}  // namespace

TEST_CASE("a cursor survives its bytes, and no prefix of them is taken for one") {
    const RingCursor c{RingEnd::died, 4096, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, uuid(9), 10, -11, "run", "project"};
    const Bytes value = encode(c);
    const auto back = decode_cursor(value);
    REQUIRE(back);
    CHECK(*back == c);
    for (std::size_t n = 0; n < value.size(); ++n) CHECK_FALSE(decode_cursor(ByteView(value).first(n)));
    Bytes longer = value;
    longer.push_back(0);
    CHECK_FALSE(decode_cursor(longer));
    Bytes other = value;
    other[0] = 2;
    CHECK(decode_cursor(other).error().code == Code::unsupported);
    other = value;
    other[1] = 9;
    CHECK(decode_cursor(other).error().code == Code::corrupt);
    CHECK(*cursor_key_decode(cursor_key(uuid(5))) == uuid(5));
    CHECK_FALSE(cursor_key_decode(value));
}

TEST_CASE("a producer is opened once with its description, whatever the number of its rings") {
    Intake intake({});
    RingInfo info = scalar_info();
    info.producers_declared = 8;
    info.continues = uuid(7).text();
    Feed scalar(intake, info);
    Feed block(intake, block_info({{Dtype::f32, "x"}}, 0, 4));
    Content content;
    cut(intake, content);
    REQUIRE(content.producers.size() == 1);
    const auto& [origin, r] = content.producers[0];
    CHECK(r.what == ProducerWhat::opened);
    CHECK(r.pid == 42);
    CHECK(r.producers_declared == 8);
    CHECK(r.host == "gpu-1");
    CHECK(r.continues == uuid(7).text());
    CHECK(origin.run == "run-1");
    CHECK(origin.run_created_ns == info.opened_ns);
    CHECK(content.cursors.size() == 2);
}

TEST_CASE("a close record that counts rings waits for those that were not offered yet, but not for ever") {
    const RingInfo block_ring = block_info({{Dtype::f32, "x"}}, 0, 4);
    const auto zero = [](auto, auto, auto) { return 0; };
    for (const bool comes : {true, false}) {
        Intake intake({});
        Content content;
        Feed scalar(intake, scalar_with_series());
        REQUIRE(scalar.give(ring::RecordKind::close, close_body(0, 2), 0));
        intake.end(scalar.handle(), ProducerEnd::finished, 30);
        cut(intake, content);
        CHECK(whats(content) == std::vector{ProducerWhat::opened});
        if (comes) {
            Feed block(intake, block_ring);
            REQUIRE(block.give(ring::RecordKind::frame, frame_body(block_ring.block, {}, zero), 4));
            intake.end(block.handle(), ProducerEnd::finished, 31);
        } else {
            intake.heartbeat(1, 60);
            CHECK_FALSE(intake.pending());
            intake.heartbeat(Intake::forget_after_ns + 1, 61);
        }
        cut(intake, content);
        CHECK(whats(content) == std::vector{ProducerWhat::opened, ProducerWhat::closed});
        CHECK(content.producers.back().second.totals.size() == (comes ? 2 : 1));
    }
}

TEST_CASE("records of a producer are numbered upwards over lives, also when the clock is set back") {
    Content content;
    std::vector<std::uint64_t> numbers;
    {
        Intake intake({});
        const RingInfo info = scalar_with_series();
        Feed scalar(intake, info);
        REQUIRE(scalar.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
        REQUIRE(scalar.give(ring::RecordKind::rewind, rewind_body(1), 0));
        intake.end(scalar.handle(), ProducerEnd::died, 1'000'000);
        cut(intake, content);
    }
    const auto second = next_life(content);
    RingInfo again = scalar_with_series();
    REQUIRE(second->attach(again, 5));  // long before, by the wall clock
    const auto batch = second->cut(6);
    REQUIRE(batch);
    content.add(*batch);
    CHECK(whats(content) == std::vector{ProducerWhat::opened, ProducerWhat::rewound, ProducerWhat::closed, ProducerWhat::reopened});
    for (const auto& [origin, r] : content.producers) numbers.push_back(r.number);
    CHECK(std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>()) == numbers.end());
}

TEST_CASE("CLOSE carries the sums of the hashes of the producer's live rows, over lives") {
    Content content;
    const RingInfo block_ring = block_info({{Dtype::f32, "x"}, {Dtype::i8, "y"}}, 0, 4);
    const auto value = [](auto m, auto t, auto e) { return static_cast<std::uint64_t>(m * 100 + t * 10 + e); };
    const auto give = [&](Feed& scalar, Feed& block) {
        REQUIRE(block.give(ring::RecordKind::frame, frame_body(block_ring.block, {}, value), 8));
        REQUIRE(scalar.give(ring::RecordKind::event, event_body("a", "b", "c"), 0));
        REQUIRE(scalar.give(ring::RecordKind::episodes, episode_body(9, 1, {{0, 0, 0, 0, 0, 1.5, 3}, {2, 1, 0, 0, 0, -0.0, 1}}), 0));
    };
    {
        Intake intake({});
        Feed scalar(intake, scalar_with_series());
        Feed block(intake, block_ring);
        give(scalar, block);
        cut(intake, content);
    }
    const auto second = next_life(content);
    Feed scalar(*second, scalar_with_series());
    Feed block(*second, block_ring);
    give(scalar, block);
    second->end(block.handle(), ProducerEnd::died, 30);
    second->end(scalar.handle(), ProducerEnd::died, 31);
    cut(*second, content);
    std::uint64_t episodes = 0, events = 0, stats = 0;
    for (const auto& [origin, e] : content.episodes) episodes += parcel::row_hash(parcel::row_seed(origin, "episodes"), e);
    for (const auto& [origin, e] : content.events) events += parcel::row_hash(parcel::row_seed(origin, "events"), e);
    for (const StatsOf& s : content.stats)
        stats += parcel::row_hash(series_seed("run-1", s.series.producer, s.series.attempt, s.series.dtype, s.series.metric), s.row);
    const parcel::ProducerRecord& closed = content.producers.back().second;
    REQUIRE(closed.what == ProducerWhat::closed);
    for (const parcel::RingTotals& t : closed.totals) {
        episodes -= t.episodes_hash;
        events -= t.events_hash;
        stats -= t.stats_hash;
    }
    CHECK(content.stats.size() == 4);
    CHECK(episodes == 0);
    CHECK(events == 0);
    CHECK(stats == 0);
}

TEST_CASE("a producer finishes after its close record and its last ring; totals of all rings, then the cursors go") {
    Intake intake({});
    const RingInfo block_ring = block_info({{Dtype::f32, "x"}, {Dtype::f32, "y"}}, 0, 4);
    Feed scalar(intake, scalar_with_series());
    Feed block(intake, block_ring);
    Content content;
    const auto zero = [](auto, auto, auto) { return 0; };
    REQUIRE(block.give(ring::RecordKind::frame, frame_body(block_ring.block, {}, zero), 8));
    REQUIRE(scalar.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
    REQUIRE(scalar.give(ring::RecordKind::event, event_body("a", "b", "c"), 0));
    REQUIRE(scalar.give(ring::RecordKind::episodes, episode_body(9, 1, {{0, 0, 0, 0, 0, 0, 3}}), 0));
    REQUIRE(scalar.give(ring::RecordKind::close, close_body(-3), 0));
    intake.end(scalar.handle(), ProducerEnd::finished, 30);
    cut(intake, content);
    CHECK(whats(content) == std::vector{ProducerWhat::opened});  // the block may hold more
    intake.end(block.handle(), ProducerEnd::finished, 31);
    const auto batch = intake.cut(50);
    REQUIRE(batch);
    CHECK(batch->marks.size() == 2);
    content.add(*batch);
    REQUIRE(content.producers.size() == 2);
    const parcel::ProducerRecord& r = content.producers[1].second;
    CHECK(r.what == ProducerWhat::closed);
    CHECK(r.end == ProducerEnd::finished);
    CHECK(r.exit_code == -3);
    CHECK(r.time_ns == 31);
    REQUIRE(r.totals.size() == 2);
    CHECK(r.totals[0].records == 4);
    CHECK(r.totals[0].points == 1);
    CHECK(r.totals[0].events == 1);
    CHECK(r.totals[0].episodes == 1);
    CHECK(r.totals[1].block == 7);
    CHECK(r.totals[1].points == 8);
    CHECK(r.totals[1].stats == 2);
    CHECK(content.cursors.size() == 2);
    CHECK(all_closed(content));
    intake.heartbeat(1, 60);
    intake.heartbeat(Intake::forget_after_ns + 1, 61);
    CHECK_FALSE(intake.pending());  // removals wait for company
    Feed other(intake, scalar_info(5, 5));
    cut(intake, content);
    CHECK(content.cursors.size() == 1);
    CHECK(intake.rings() == 1);
    intake.end(block.handle(), ProducerEnd::died, 62);  // a late word about a ring that is gone
    CHECK_FALSE(intake.pending());
}

TEST_CASE("a ring of a finished producer that comes late reopens it, and it is closed again") {
    Intake intake({});
    Feed scalar(intake, scalar_info());
    REQUIRE(scalar.give(ring::RecordKind::close, close_body(4), 0));
    intake.end(scalar.handle(), ProducerEnd::finished, 30);
    Content content;
    cut(intake, content);
    const RingInfo late = block_info({{Dtype::f32, "x"}}, 0, 4);
    Feed block(intake, late);
    REQUIRE(block.give(ring::RecordKind::frame, frame_body(late.block, {}, [](auto, auto, auto) { return 0; }), 4));
    intake.end(block.handle(), ProducerEnd::finished, 40);
    cut(intake, content);
    CHECK(whats(content) == std::vector{ProducerWhat::opened, ProducerWhat::closed, ProducerWhat::reopened, ProducerWhat::closed});
    CHECK(content.producers[3].second.exit_code == 4);
    CHECK(all_closed(content));
}

TEST_CASE("a ring that is offered again after its producer's CLOSE, because its tail was never moved, is not read twice") {
    Content content;
    {
        Intake intake({});
        Feed feed(intake, scalar_with_series());
        REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
        REQUIRE(feed.give(ring::RecordKind::close, close_body(3), 0));
        intake.end(feed.handle(), ProducerEnd::finished, 30);
        cut(intake, content);
    }
    auto intake = next_life(content);
    intake->close_absent(40);
    CHECK_FALSE(intake->pending());
    Feed feed(*intake, scalar_with_series());
    REQUIRE(feed.resume());
    CHECK(feed.resume()->record_number == 2);
    intake->end(feed.handle(), ProducerEnd::finished, 50);
    cut(*intake, content);
    CHECK(content.points.size() == 1);
    CHECK(content.producers.back().second.what == ProducerWhat::closed);
    CHECK(content.producers.back().second.end == ProducerEnd::finished);
}

TEST_CASE("a restart continues at the committed cursor with the totals so far and does not open the producer again (I2)") {
    Content content;
    const RingInfo info = scalar_with_series();
    {
        Intake intake({});
        Feed feed(intake, info);
        REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
        cut(intake, content);
        REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(2, {{0, 6}}), 1));  // not committed
    }
    auto intake = next_life(content);
    Feed feed(*intake, info);
    REQUIRE(feed.resume());
    CHECK(feed.resume()->record_number == 1);
    CHECK(feed.resume()->points_total == 1);
    REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(2, {{0, 6}}), 1));
    REQUIRE(feed.give(ring::RecordKind::close, close_body(0), 0));
    intake->end(feed.handle(), ProducerEnd::finished, 30);
    cut(*intake, content);
    CHECK(whats(content) == std::vector{ProducerWhat::opened, ProducerWhat::closed});
    CHECK(content.producers[1].second.totals[0].points == 2);
    CHECK(content.points.size() == 2);
    for (const auto& [key, seen] : content.points) CHECK(seen.size() == 1);
    CHECK(all_closed(content));
}

TEST_CASE("a producer that died keeps its cursor, in this life and the next; its ring's return reopens it") {
    Content content;
    const RingInfo info = scalar_with_series();
    auto intake = std::make_unique<Intake>(Options{});
    {
        Feed feed(*intake, info);
        REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
        intake->end(feed.handle(), ProducerEnd::died, 30);
        cut(*intake, content);
        CHECK(content.producers[1].second.end == ProducerEnd::died);
        CHECK(content.cursors.size() == 1);
    }
    {
        Feed again(*intake, info);
        REQUIRE(again.resume());
        intake->end(again.handle(), ProducerEnd::died, 31);
        cut(*intake, content);
    }
    intake = next_life(content);
    intake->close_absent(60);  // closed already: not lost once more
    CHECK_FALSE(intake->pending());
    Feed third(*intake, info);
    REQUIRE(third.resume());
    CHECK(third.resume()->record_number == 1);
    cut(*intake, content);
    CHECK(whats(content) == std::vector{ProducerWhat::opened, ProducerWhat::closed, ProducerWhat::reopened,
                                        ProducerWhat::closed, ProducerWhat::reopened});
}

TEST_CASE("a producer of the cursor table that is not offered again is closed as lost at its last record") {
    Content content;
    {
        Intake intake({});
        Feed feed(intake, scalar_with_series());
        REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
        cut(intake, content);
    }
    auto intake = next_life(content);
    Feed other(*intake, scalar_info(3, 3));
    intake->close_absent(60);
    cut(*intake, content);
    REQUIRE(content.producers.size() == 3);
    std::size_t lost = 0;
    for (const auto& [origin, r] : content.producers) {
        if (r.end != ProducerEnd::lost) continue;
        ++lost;
        CHECK(origin.producer == uuid(1));
        CHECK(r.totals[0].points == 1);
    }
    CHECK(lost == 1);
}

TEST_CASE("after a restart a producer is not finished before every ring of the cursor table came back") {
    Content content;
    const RingInfo block_ring = block_info({{Dtype::f32, "x"}}, 0, 4);
    {
        Intake intake({});
        Feed scalar(intake, scalar_info());
        Feed block(intake, block_ring);
        REQUIRE(scalar.give(ring::RecordKind::close, close_body(0), 0));
        cut(intake, content);
    }
    auto intake = next_life(content);
    Feed scalar(*intake, scalar_info());
    intake->end(scalar.handle(), ProducerEnd::finished, 30);
    cut(*intake, content);
    CHECK(whats(content) == std::vector{ProducerWhat::opened});
    Feed block(*intake, block_ring);
    REQUIRE(block.give(ring::RecordKind::frame, frame_body(block_ring.block, {}, [](auto, auto, auto) { return 0; }), 4));
    intake->end(block.handle(), ProducerEnd::finished, 31);
    cut(*intake, content);
    CHECK(whats(content) == std::vector{ProducerWhat::opened, ProducerWhat::closed});
    CHECK(content.producers.back().second.end == ProducerEnd::finished);
    CHECK(all_closed(content));
}

TEST_CASE("a rewind opens the next attempt in its own section") {
    Intake intake({});
    RingInfo info = scalar_with_series();
    Feed feed(intake, info);
    REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(9, {{0, 5}}), 1));
    feed.header.attempt = 1;
    REQUIRE(feed.give(ring::RecordKind::rewind, rewind_body(4), 0));
    REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(4, {{0, 6}}), 1));
    Content content;
    cut(intake, content);
    REQUIRE(content.producers.size() == 2);
    CHECK(content.producers[1].first.attempt == 1);
    CHECK(content.producers[1].second.what == ProducerWhat::rewound);
    CHECK(content.producers[1].second.fork_step == 4);
    CHECK(content.points.count({{uuid(1), 0, Dtype::u8, "a"}, 0, 9}) == 1);
    CHECK(content.points.count({{uuid(1), 1, Dtype::u8, "a"}, 0, 4}) == 1);
}

TEST_CASE("heartbeats come at their interval for producers that are attached") {
    Options options;
    options.heartbeat_interval_ns = 100;
    Intake intake(options);
    Feed feed(intake, scalar_with_series());
    Content content;
    cut(intake, content);
    intake.heartbeat(1000, 1);
    intake.heartbeat(1099, 2);
    CHECK_FALSE(intake.pending());
    intake.heartbeat(1100, 3);
    intake.heartbeat(1150, 4);
    cut(intake, content);
    REQUIRE(content.producers.size() == 2);
    CHECK(content.producers[1].second.what == ProducerWhat::heartbeat);
    intake.end(feed.handle(), ProducerEnd::died, 5);
    cut(intake, content);
    intake.heartbeat(5000, 6);
    CHECK_FALSE(intake.pending());
}

TEST_CASE("a corrupt ring costs its own data only: a gap, no further attach, and its producer finishes with the rest") {
    Content content;
    Intake intake({});
    const RingInfo block_ring = block_info({{Dtype::f32, "x"}}, 0, 4);
    Feed scalar(intake, scalar_with_series());
    Feed block(intake, block_ring);
    CHECK_FALSE(block.give(ring::RecordKind::frame, Bytes(8, 0xFF), 4));
    intake.corrupt(block.handle(), 12, 30);
    intake.corrupt(block.handle(), 12, 31);
    REQUIRE(scalar.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
    cut(intake, content);
    REQUIRE(content.gaps.size() == 1);
    CHECK(content.gaps[0].second.points == 12);
    CHECK(content.gaps[0].second.block == 7);
    CHECK(content.gaps[0].second.reason == "ring_corrupt");
    CHECK(content.points.size() == 1);
    CHECK(intake.attach(block_ring, 40).error().code == Code::corrupt);
    auto later = next_life(content);
    CHECK(later->attach(block_ring, 40).error().code == Code::corrupt);
    REQUIRE(scalar.give(ring::RecordKind::close, close_body(0), 0));
    intake.end(scalar.handle(), ProducerEnd::finished, 50);
    cut(intake, content);
    CHECK(content.producers.back().second.end == ProducerEnd::finished);
}

TEST_CASE("rings that claim another's identity, or make no sense, are refused") {
    Intake intake({});
    Feed feed(intake, scalar_info());
    const auto code = [&](const RingInfo& info) {
        const auto r = intake.attach(info, 1);
        return r ? Code::ok : r.error().code;
    };
    CHECK(code(scalar_info()) == Code::busy);
    RingInfo info = scalar_info(2);
    info.run = "run-2";
    CHECK(code(info) == Code::conflict);
    intake.end(feed.handle(), ProducerEnd::died, 3);
    CHECK(code(scalar_info(1, 5)) == Code::conflict);
    info = scalar_info(9, 9);
    info.run = "no spaces allowed";
    CHECK(code(info) == Code::invalid);
    info = scalar_info(9, 9);
    info.role = "\xFF";
    CHECK(code(info) == Code::invalid);
    info = block_info({{Dtype::f32, "x"}}, UINT32_MAX - 2, 4, 9, 9);
    CHECK(code(info) == Code::invalid);
    info = block_info({}, 0, 4, 9, 9);
    CHECK(code(info) == Code::invalid);
    info = block_info({{Dtype::f32, ""}}, 0, 4, 9, 9);
    CHECK(code(info) == Code::invalid);
    info = block_info({{Dtype::f32, "x"}}, 0, 4, 9, 9);
    info.kind = ring::RingKind::scalar;
    CHECK(code(info) == Code::invalid);
    CHECK_FALSE(intake.restore(Bytes(3), Bytes(3)));
}

TEST_CASE("only so many producers that ended are remembered; the oldest cursors are removed") {
    Intake intake({});
    Content content;
    for (std::size_t i = 0; i < Intake::ended_producers_max + 3; ++i) {
        RingInfo info = scalar_info();
        info.ring.bytes[0] = info.producer.bytes[0] = static_cast<std::uint8_t>(i);
        info.ring.bytes[1] = info.producer.bytes[1] = static_cast<std::uint8_t>(i >> 8);
        Feed feed(intake, info);
        intake.end(feed.handle(), ProducerEnd::died, 1);
    }
    cut(intake, content);
    CHECK(content.cursors.size() == Intake::ended_producers_max);
    CHECK(intake.rings() == Intake::ended_producers_max);
    CHECK(content.producers.size() == 2 * (Intake::ended_producers_max + 3));
}

TEST_CASE("a gap without a run is a gap without an origin") {
    Intake intake({});
    parcel::Gap g;
    g.reason = "spool_damage";
    intake.loss(g);
    Content content;
    cut(intake, content);
    REQUIRE(content.gaps.size() == 1);
    CHECK(content.gaps[0].first.run.empty());
}
