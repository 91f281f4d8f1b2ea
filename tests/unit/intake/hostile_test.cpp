// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/unit/intake/kit.hpp"

using namespace tally;
using namespace tally::intake;
using namespace tally::intake::kit;

namespace {

template <class T>
Bytes patched(Bytes body, std::size_t at, T value) {
    std::memcpy(body.data() + at, &value, sizeof value);
    return body;
}

struct Hostile {
    RingInfo block = block_info({{Dtype::f32, "x"}, {Dtype::boolean, "b"}, {Dtype::f64, "z"}}, 10, 9, 2, 2);
    RingInfo scalar = [] {
        RingInfo info = scalar_info();
        info.series = {{Dtype::u8, "a"}, {Dtype::boolean, "b"}, {Dtype::f64, "c"}};
        return info;
    }();
};

}  // namespace

TEST_CASE("a frame whose fields disagree with its block or its bytes is refused and leaves nothing behind (I1)") {
    const Hostile h;
    Intake intake({});
    Feed feed(intake, h.block);
    static_cast<void>(intake.cut(1));
    const auto one = [](std::uint32_t m, auto, auto) { return m == 1 ? 1ULL : 0ULL; };
    FrameSpec rows_spec;
    rows_spec.rows_listed = true;
    rows_spec.rows = {1, 8};
    const Bytes dense = frame_body(h.block.block, {}, one);
    const Bytes rows = frame_body(h.block.block, rows_spec, one);
    const auto refused = [&](const Bytes& body) {
        const auto r = feed.give(ring::RecordKind::frame, body, 0);
        CHECK_FALSE(r);
        CHECK((r || r.error().code == Code::corrupt));
        CHECK_FALSE(intake.pending());
    };
    refused({});
    refused(Bytes(39, 0));
    refused(patched(dense, 0, std::uint32_t{8}));           // block
    refused(patched(dense, 4, std::uint32_t{1}));           // metric_first
    refused(patched(dense, 4, UINT32_MAX));
    refused(patched(dense, 8, std::uint32_t{4}));           // metrics
    refused(patched(dense, 8, std::uint32_t{0}));
    refused(patched(dense, 8, UINT32_MAX));
    refused(patched(dense, 12, std::uint32_t{0}));          // steps
    refused(patched(dense, 12, std::uint32_t{2}));
    refused(patched(dense, 12, UINT32_MAX));
    refused(patched(dense, 24, std::int64_t{0}));           // stride
    refused(patched(dense, 24, std::int64_t{-1}));
    refused(patched(dense, 32, std::uint32_t{1}));          // rows of a dense frame
    refused(patched(dense, 36, std::uint32_t{1}));          // rows_listed without rows
    refused(patched(dense, 36, std::uint32_t{2}));
    refused(patched(rows, 32, std::uint32_t{3}));           // more rows than there are
    refused(patched(rows, 32, UINT32_MAX));
    refused(patched(rows, 44, std::uint32_t{9}));           // no such environment
    refused(patched(dense, 40 + 40, std::uint8_t{2}));      // bool that is 2
    Bytes longer = dense;
    longer.resize(longer.size() + 8);
    refused(longer);
    // Steps that leave 64 bits: two steps, stride and first at the edge.
    FrameSpec two;
    two.steps = 2;
    two.step_first = INT64_MAX;
    refused(frame_body(h.block.block, two, one));
    CHECK(feed.give(ring::RecordKind::frame, dense, 27));
    CHECK(feed.give(ring::RecordKind::frame, rows, 6));
}

TEST_CASE("scalars, episodes, events, rewinds and closes with wrong lengths or values are refused") {
    const Hostile h;
    Intake intake({});
    Feed feed(intake, h.scalar);
    static_cast<void>(intake.cut(1));
    const auto refused = [&](ring::RecordKind kind, const Bytes& body) {
        CHECK_FALSE(feed.give(kind, body, 0));
        CHECK_FALSE(intake.pending());
    };
    using K = ring::RecordKind;
    const Bytes scalar = scalar_body(1, {{0, 255}, {1, 1}});
    refused(K::scalars, Bytes(15));
    refused(K::scalars, patched(scalar, 8, std::uint32_t{3}));
    refused(K::scalars, patched(scalar, 8, UINT32_MAX));
    refused(K::scalars, patched(scalar, 16, std::uint32_t{3}));
    refused(K::scalars, scalar_body(1, {{0, 256}}));  // more bits than a u8 has
    refused(K::scalars, scalar_body(1, {{1, 2}}));
    const Bytes episode = episode_body(5, 1, {{0, 1, 0, 0, 0, 0, 2}});
    refused(K::episodes, Bytes(23));
    refused(K::episodes, patched(episode, 16, std::uint32_t{2}));
    refused(K::episodes, patched(episode, 16, UINT32_MAX));
    refused(K::episodes, patched(episode, 8, std::int64_t{0}));
    refused(K::episodes, patched(episode, 40, std::int64_t{-1}));
    refused(K::episodes, patched(patched(episode, 40, INT64_MAX), 8, std::int64_t{3}));
    const Bytes event = event_body("a", "b", "c");
    refused(K::event, Bytes(7));
    refused(K::event, patched(event, 0, std::uint16_t{9}));
    refused(K::event, patched(event, 4, UINT32_MAX));
    Bytes long_event = event;
    long_event.resize(event.size() + 8);
    refused(K::event, long_event);
    refused(K::rewind, Bytes(7));
    refused(K::rewind, Bytes(16));
    refused(K::close, Bytes(4));
    refused(K::file, Bytes(8));
    refused(static_cast<K>(99), Bytes(8));
    refused(K::frame, Bytes(40));
    feed.header.flags = ring::flag_optional;
    CHECK(feed.give(static_cast<K>(99), {}, 0));
}

TEST_CASE("random bodies never crash, and what is accepted is in bounds and reads back") {
    const Hostile h;
    std::mt19937_64 rng(11);
    Options small;
    small.parcel_bytes_target = 2048;
    Intake intake(small);
    Feed block(intake, h.block);
    Feed scalar(intake, h.scalar);
    Content content;
    std::size_t accepted = 0;
    const auto mutate = [&](Bytes body) {
        for (std::size_t i = 0; i < rng() % 3; ++i)
            if (!body.empty()) body[rng() % std::min<std::size_t>(body.size(), 64)] = static_cast<std::uint8_t>(rng() % 4 ? rng() % 12 : rng());
        if (rng() % 20 == 0) body.resize(rng() % (body.size() + 16));
        return body;
    };
    for (int round = 0; round < 20000; ++round) {
        FrameSpec spec;
        spec.steps = static_cast<std::uint32_t>(1 + rng() % 3);
        spec.rows_listed = rng() % 2 == 0;
        for (std::size_t i = 0; spec.rows_listed && i < rng() % 6; ++i) spec.rows.push_back(static_cast<std::uint32_t>(rng() % 9));
        const auto bits = [&](std::uint32_t m, auto, auto) { return some_bits(h.block.block.metrics[m].dtype, rng); };
        switch (rng() % 5) {
            case 0: accepted += block.give(ring::RecordKind::frame, mutate(frame_body(h.block.block, spec, bits)), 0).has_value(); break;
            case 1: accepted += scalar.give(ring::RecordKind::scalars, mutate(scalar_body(3, {{0, 4}, {2, rng()}})), 0).has_value(); break;
            case 2: accepted += scalar.give(ring::RecordKind::episodes, mutate(episode_body(3, 1, {{0, 4, 0, 0, 0, 1, 2}})), 0).has_value(); break;
            case 3: accepted += scalar.give(ring::RecordKind::event, mutate(event_body("ab", "", "cd")), 0).has_value(); break;
            default: accepted += scalar.give(static_cast<ring::RecordKind>(rng() % 8), mutate(Bytes(rng() % 64)), 0).has_value(); break;
        }
        if (round % 500 == 499)
            if (const auto batch = intake.cut(round)) content.add(*batch);
    }
    CHECK(accepted > 1000);
    CHECK(accepted < 19000);
    for (const auto& [key, seen] : content.points) {
        if (key.series.producer != uuid(2)) continue;
        CHECK(key.env >= 10);
        CHECK(key.env < 19);
    }
    CHECK(content.ledger == sums_of(content.points, "run-1"));
}
