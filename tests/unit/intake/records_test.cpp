// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/unit/intake/kit.hpp"

using namespace tally;
using namespace tally::intake;
using namespace tally::intake::kit;

TEST_CASE("scalars of a batch become one section per producer, every value with its own time and rl_step") {
    Intake intake({});
    Points model;
    std::vector<std::unique_ptr<Feed>> feeds;
    std::mt19937_64 rng(1);
    std::vector<RingInfo> infos;
    for (std::uint8_t p = 1; p <= 3; ++p) {
        RingInfo info = scalar_info(p, p);
        for (const Dtype d : all_dtypes) info.series.push_back({d, std::string("s.") + dtype_name(d)});
        infos.push_back(info);
        feeds.push_back(std::make_unique<Feed>(intake, info));
    }
    for (int round = 0; round < 200; ++round) {
        const std::size_t p = rng() % 3;
        Feed& f = *feeds[p];
        f.header.flags = round % 2 == 0 ? ring::flag_has_rl_step : 0;
        f.header.rl_step = round % 2 == 0 ? round : 0;
        f.header.time_ns += 1000;
        std::vector<std::pair<std::uint32_t, std::uint64_t>> values;
        const std::int64_t step = static_cast<std::int64_t>(rng() % 50) - 10;
        for (std::size_t i = 0; i < 1 + rng() % 5; ++i) {
            const auto series = static_cast<std::uint32_t>(rng() % std::size(all_dtypes));
            const std::uint64_t bits = some_bits(all_dtypes[series], rng);
            values.push_back({series, bits});
            model[{{infos[p].producer, 0, all_dtypes[series], infos[p].series[series].name}, 0, step}].push_back(
                {bits, f.header.time_ns, {round % 2 == 0, f.header.rl_step}});
        }
        REQUIRE(f.give(ring::RecordKind::scalars, scalar_body(step, values), values.size()));
    }
    const auto batch = intake.cut(1);
    REQUIRE(batch);
    CHECK(batch->parcels.size() == 2);
    Content content;
    content.add(*batch);
    CHECK(content.points == model);
    CHECK(content.ledger == sums_of(model, "run-1"));
    CHECK(content.stats.empty());
}

TEST_CASE("the scalars of a thousand producers share a few parcels") {
    Intake intake({});
    std::vector<std::unique_ptr<Feed>> feeds;
    for (std::size_t p = 0; p < 1500; ++p) {
        RingInfo info = scalar_info();
        info.ring.bytes[0] = info.producer.bytes[0] = static_cast<std::uint8_t>(p);
        info.ring.bytes[1] = info.producer.bytes[1] = static_cast<std::uint8_t>(p >> 8);
        info.series = {{Dtype::f32, "loss"}};
        feeds.push_back(std::make_unique<Feed>(intake, info));
        REQUIRE(feeds.back()->give(ring::RecordKind::scalars, scalar_body(1, {{0, p}}), 1));
    }
    const auto batch = intake.cut(1);
    REQUIRE(batch);
    CHECK(batch->parcels.size() <= 8);
    Content content;
    content.add(*batch);
    CHECK(content.points.size() == 1500);
    CHECK(content.ledger == sums_of(content.points, "run-1"));
}

TEST_CASE("a series that was registered after the attach is known once it was added") {
    Intake intake({});
    Feed feed(intake, scalar_info());
    CHECK_FALSE(feed.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
    CHECK(intake.series_count(feed.handle()) == 0);
    intake.add_series(feed.handle(), {Dtype::u8, "late"});
    CHECK(feed.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
}

TEST_CASE("many scalars fill parcels of the target size, not one huge one") {
    Options small;
    small.parcel_bytes_target = 16 << 10;
    Intake intake(small);
    RingInfo info = scalar_info();
    info.series = {{Dtype::f64, "a"}};
    Feed feed(intake, info);
    Points model;
    std::mt19937_64 rng(3);
    for (int i = 0; i < 5000; ++i) {
        const std::uint64_t bits = rng();
        REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(i, {{0, bits}}), 1));
        model[{{info.producer, 0, Dtype::f64, "a"}, 0, i}].push_back({bits, feed.header.time_ns, {}});
    }
    Content content;
    content.add(*intake.cut(1));
    CHECK(content.points == model);
    CHECK(content.ledger == sums_of(model, info.run));
    CHECK(content.parcels[1] >= 3);
    CHECK(content.largest_parcel < (64U << 10));
}

TEST_CASE("episodes get their first step from their length, and the points that are expected") {
    Intake intake({});
    Feed feed(intake, scalar_info());
    const std::vector<parcel::EpisodeHeader> given = {{3, 1, 0, 0, 0, 1.5, 64}, {4, -7, 0, 0, 0, -0.0, 1}, {5, 0, 0, 0, 0, 2, 0}};
    REQUIRE(feed.give(ring::RecordKind::episodes, episode_body(100, 2, given), 0));
    Content content;
    content.add(*intake.cut(1));
    REQUIRE(content.episodes.size() == 3);
    CHECK(content.episodes[0].second.step_first == 100 - 63 * 2);
    CHECK(content.episodes[0].second.step_last == 100);
    CHECK(content.episodes[0].second.points_expected == 64);
    CHECK(content.episodes[1].second.step_first == 100);
    CHECK(content.episodes[1].second.episode == -7);
    CHECK(std::signbit(content.episodes[1].second.ret));
    CHECK(content.episodes[2].second.step_first == 100);
    CHECK(content.episodes[2].second.points_expected == 0);
}

TEST_CASE("an event keeps its texts, and bytes that are not UTF-8 do not cost it its ring") {
    Intake intake({});
    Feed feed(intake, scalar_info());
    REQUIRE(feed.give(ring::RecordKind::event, event_body("note", "k", "gr\xC3\xBC\xC3\x9F"), 0));
    REQUIRE(feed.give(ring::RecordKind::event, event_body("log", "", "bad \xFF byte"), 0));
    Content content;
    content.add(*intake.cut(1));
    REQUIRE(content.events.size() == 2);
    CHECK(content.events[0].second.kind == "note");
    CHECK(content.events[0].second.key == "k");
    CHECK(content.events[0].second.text == "gr\xC3\xBC\xC3\x9F");
    CHECK(content.events[0].second.time_ns == feed.header.time_ns);
    CHECK(content.events[1].second.text == "bad \xEF\xBF\xBD byte");
}

TEST_CASE("drop slots become gaps once each, also when they grow and when the agent restarts in between") {
    Options options;
    auto intake = std::make_unique<Intake>(options);
    const RingInfo info = scalar_info();
    Content content;
    RingHandle handle{};
    const auto drops = [&](std::vector<Drop> slots) { intake->drops(handle, slots, 5); };
    {
        Feed feed(*intake, info);
        handle = feed.handle();
        drops({{1, 1, 10, 20, 100}});
        drops({{1, 1, 10, 20, 100}});
        drops({{1, 1, 10, 30, 150}, {2, 2, 7, 7, 5}});
        content.add(*intake->cut(1));
    }
    intake = std::make_unique<Intake>(options);
    for (const auto& [key, value] : content.cursors) REQUIRE(intake->restore(key, value));
    Feed feed(*intake, info);
    handle = feed.handle();
    drops({{1, 1, 10, 30, 150}, {2, 2, 7, 9, 8}});
    content.add(*intake->cut(2));
    REQUIRE(content.gaps.size() == 4);
    const std::uint64_t points[] = {100, 50, 5, 3};
    for (std::size_t i = 0; i < 4; ++i) CHECK(content.gaps[i].second.points == points[i]);
    CHECK(content.gaps[0].second.reason == "ring_full");
    CHECK(content.gaps[2].second.reason == "record_too_big");
    CHECK(content.gaps[3].second.step_last == 9);
    CHECK(content.gaps[0].first.run == "run-1");
}

TEST_CASE("a batch is ready when it is old or large enough, and never when nothing waits") {
    Options options;
    options.batch_interval_ns = 20;
    options.batch_bytes_max = 100'000;
    Intake intake(options);
    CHECK_FALSE(intake.batch_ready(5));
    CHECK_FALSE(intake.cut(1));
    RingInfo info = block_info({{Dtype::f64, "a"}}, 0, 4096);
    Feed feed(intake, info);
    CHECK_FALSE(intake.batch_ready(10));
    CHECK_FALSE(intake.batch_ready(29));
    CHECK(intake.batch_ready(30));
    REQUIRE(intake.cut(1));
    CHECK_FALSE(intake.batch_ready(31));
    std::mt19937_64 rng(1);
    for (int i = 0; i < 20; ++i)
        REQUIRE(feed.give(ring::RecordKind::frame, frame_body(info.block, {}, [&](auto, auto, auto) { return rng(); }), 4096));
    CHECK(intake.pending_bytes() >= options.batch_bytes_max);
    CHECK(intake.batch_ready(32));
}

TEST_CASE("the START section is the first section of the first live parcel") {
    Intake intake({});
    parcel::StartSection start;
    start.ended = {{StartId{5}, 3, {3, 0, 0}}};
    intake.start(start);
    RingInfo info = scalar_info();
    info.series = {{Dtype::u8, "a"}};
    Feed feed(intake, info);
    REQUIRE(feed.give(ring::RecordKind::scalars, scalar_body(1, {{0, 5}}), 1));
    auto batch = intake.cut(123);
    REQUIRE(batch);
    parcel::stamp(batch->parcels[0].bytes, {uuid(1), {StartId{1}, Lane::live, Seq{1}}, GroupNo{1}});
    const auto view = parcel::ParcelView::open(batch->parcels[0].bytes);
    REQUIRE(view);
    CHECK(view->sections()[0].kind == static_cast<std::uint16_t>(parcel::SectionKind::start));
    CHECK(view->header().created_ns == 123);
}
