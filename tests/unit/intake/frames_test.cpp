// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/intake/kit.hpp"

using namespace tally;
using namespace tally::intake;
using namespace tally::intake::kit;

namespace {

std::vector<parcel::Metric> every_dtype() {
    std::vector<parcel::Metric> out;
    for (const Dtype d : all_dtypes) out.push_back({d, std::string("m.") + dtype_name(d)});
    return out;
}

// One bits function per record: the same argument gives the same bits.
BitsOf random_bits(const Block& block, std::uint64_t seed) {
    return [&block, seed](std::uint32_t m, std::uint32_t i, std::uint32_t t) {
        std::mt19937_64 rng(seed ^ (m * 1000003ULL + i * 4099ULL + t * 17ULL));
        rng();
        return some_bits(block.metrics[m].dtype, rng);
    };
}

// Random bytes compress badly and cost time; this is cheap and smooth.
BitsOf cheap_bits() {
    return [](std::uint32_t m, std::uint32_t i, std::uint32_t t) { return (m + i * 3ULL + t * 7ULL) & 1; };
}

void check_stats(const Content& c, const Points& model, const RingInfo& info, std::size_t rows_expected) {
    REQUIRE(c.stats.size() == rows_expected);
    for (const StatsOf& s : c.stats) {
        CHECK(s.row.env_first == info.block.env_first);
        CHECK(s.row.env_count == info.block.env_count);
        std::uint64_t count = 0;
        std::uint64_t nonfinite = 0;
        double min = HUGE_VAL;
        double max = -HUGE_VAL;
        double sum = 0;
        double squares = 0;
        double scale = 0;
        std::map<std::uint16_t, std::uint32_t> bins;
        for (auto it = model.lower_bound({s.series, 0, INT64_MIN}); it != model.end() && it->first.series == s.series; ++it) {
            if (it->first.step != s.row.step) continue;
            for (const Seen& v : it->second) {
                const double x = dtype_to_f64(s.series.dtype, v.bits);
                ++count;
                if (!std::isfinite(x)) {
                    ++nonfinite;
                    continue;
                }
                min = std::min(min, x);
                max = std::max(max, x);
                sum += x;
                squares += x * x;
                scale += std::fabs(x);
                const float f = std::fabs(x) > 3.4028234663852886e38 ? std::copysign(3.4028234663852886e38F, x) : static_cast<float>(x);
                ++bins[static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(f) >> 16)];
            }
        }
        CAPTURE(s.series.metric);
        CAPTURE(s.row.step);
        CHECK(s.row.count == count);
        CHECK(s.row.nonfinite == nonfinite);
        if (nonfinite == count) min = max = 0;
        CHECK(s.row.min == min);
        CHECK(s.row.max == max);
        if (std::isfinite(scale)) CHECK(std::fabs(s.row.sum - sum) <= 1e-9 * scale);
        if (std::isfinite(squares)) CHECK(std::fabs(s.row.sum_squares - squares) <= 1e-9 * squares);
        if (info.block.env_count <= 1) {
            CHECK(s.row.bins.empty());
            continue;
        }
        REQUIRE(s.row.bins.size() == bins.size());
        std::size_t i = 0;
        for (const auto& [bin, n] : bins) {
            CHECK(s.row.bins[i] == bin);
            CHECK(s.row.bin_counts[i] == n);
            ++i;
        }
    }
}

struct Case {
    std::vector<parcel::Metric> metrics;
    std::uint32_t env_first;
    std::uint32_t env_count;
    FrameSpec spec;
    BitsOf bits;  // empty: random
    Options options{};
};

void run_case(Case c) {
    const RingInfo info = block_info(c.metrics, c.env_first, c.env_count);
    if (!c.bits) c.bits = random_bits(info.block, 77);
    Intake intake(c.options);
    Feed feed(intake, info);
    feed.header.flags = ring::flag_has_rl_step;
    feed.header.rl_step = 11;
    Points model;
    const Bytes body = frame_body(info.block, c.spec, c.bits);
    REQUIRE(feed.give(ring::RecordKind::frame, body, frame_points(info.block, c.spec)));
    model_frame(model, info, c.spec, c.bits, feed.header);
    const auto batch = intake.cut(9);
    REQUIRE(batch);
    Content content;
    content.add(*batch);
    CHECK(content.points == model);
    CHECK(content.ledger == sums_of(model, info.run));
    CHECK(content.largest_parcel < (4U << 20));
    const std::uint32_t metrics = c.spec.metrics != 0 ? c.spec.metrics : static_cast<std::uint32_t>(c.metrics.size());
    check_stats(content, model, info, std::size_t{metrics} * c.spec.steps);
    if (c.spec.rows_listed)
        for (const auto& [key, points] : content.listed) {
            std::uint64_t expected = 0;
            for (auto it = model.lower_bound({key.first, key.second, INT64_MIN});
                 it != model.end() && it->first.series == key.first && it->first.env == key.second; ++it)
                expected += it->second.size();
            CHECK(points == expected);
        }
    else
        CHECK(content.listed.empty());
    CHECK_FALSE(intake.pending());
}

}  // namespace

TEST_CASE("every dtype and every number of steps comes back point by point, bit by bit") {
    for (const std::uint32_t steps : {1U, 3U, 64U, 100U}) {
        FrameSpec spec;
        spec.steps = steps;
        spec.step_first = -5;
        spec.stride = steps == 1 ? 1 : 3;
        run_case({every_dtype(), 1000, 37, spec, {}});
    }
}

TEST_CASE("a frame wider than a range is cut into tiles of at most 4096 environments") {
    FrameSpec spec;
    spec.step_first = INT64_MAX - 2;
    spec.steps = 3;
    run_case({{{Dtype::f32, "a"}, {Dtype::boolean, "b"}}, 4000000, 4097, spec, cheap_bits()});
    run_case({{{Dtype::u8, "a"}}, 0, 9000, {}, cheap_bits()});
}

TEST_CASE("a part of the metrics and a part of the steps is a complete frame") {
    FrameSpec spec;
    spec.metric_first = 2;
    spec.metrics = 3;
    spec.step_first = 40;
    spec.steps = 2;
    run_case({every_dtype(), 5, 6, spec, {}});
}

TEST_CASE("a row list comes back sorted by environment, repeats in the caller's order, whatever the caller's order was") {
    std::mt19937_64 rng(4);
    for (const std::uint32_t steps : {1U, 3U, 70U}) {
        FrameSpec spec;
        spec.rows_listed = true;
        spec.steps = steps;
        for (int i = 0; i < 50; ++i) spec.rows.push_back(static_cast<std::uint32_t>(rng() % 30));
        run_case({every_dtype(), 500, 30, spec, {}});
        std::sort(spec.rows.begin(), spec.rows.end());
        run_case({every_dtype(), 500, 30, spec, {}});
    }
}

TEST_CASE("a long row list over several ranges, with more repeats than a tile holds") {
    std::mt19937_64 rng(5);
    FrameSpec spec;
    spec.rows_listed = true;
    for (int i = 0; i < 5000; ++i) spec.rows.push_back(4095);
    for (int i = 0; i < 5000; ++i) spec.rows.push_back(static_cast<std::uint32_t>(rng() % 20000));
    run_case({{{Dtype::f32, "a"}, {Dtype::u16, "b"}}, 100, 20000, spec, {}});
}

TEST_CASE("an empty row list is a record without points that still moves the cursor") {
    const RingInfo info = block_info({{Dtype::f32, "a"}}, 0, 10);
    Intake intake({});
    Feed feed(intake, info);
    Content content;
    content.add(*intake.cut(1));
    FrameSpec spec;
    spec.rows_listed = true;
    REQUIRE(feed.give(ring::RecordKind::frame, frame_body(info.block, spec, cheap_bits()), 0));
    const auto batch = intake.cut(2);
    REQUIRE(batch);
    content.add(*batch);
    CHECK(content.points.empty());
    CHECK(content.stats.empty());
    CHECK(decode_cursor(content.cursors.at(cursor_key(info.ring)))->position == feed.position);
}

TEST_CASE("a single environment has statistics but no histogram, and histograms can be switched off") {
    FrameSpec spec;
    spec.steps = 5;
    run_case({every_dtype(), 3, 1, spec, {}});
    Options off;
    off.histogram = false;
    const RingInfo info = block_info({{Dtype::f32, "a"}}, 0, 100);
    Intake intake(off);
    Feed feed(intake, info);
    REQUIRE(feed.give(ring::RecordKind::frame, frame_body(info.block, {}, cheap_bits()), 100));
    Content content;
    content.add(*intake.cut(1));
    REQUIRE(content.stats.size() == 1);
    CHECK(content.stats[0].row.bins.empty());
}

TEST_CASE("a frame larger than a parcel is spread over parcels near the target") {
    Options small;
    small.parcel_bytes_target = 32 << 10;
    FrameSpec spec;
    spec.steps = 2;
    run_case({{{Dtype::f32, "a"}, {Dtype::f64, "b"}, {Dtype::i8, "c"}}, 0, 10000, spec, {}, small});
    spec.rows_listed = true;
    for (std::uint32_t i = 0; i < 10000; ++i) spec.rows.push_back(9999 - i);
    run_case({{{Dtype::f32, "a"}, {Dtype::f64, "b"}}, 0, 10000, spec, {}, small});
}

TEST_CASE("many steps of few environments are recorded, but statistics never outweigh the points") {
    const RingInfo info = block_info({{Dtype::u8, "a"}}, 0, 1);
    Intake intake({});
    Feed feed(intake, info);
    FrameSpec spec;
    spec.steps = 70000;
    Points model;
    const Bytes body = frame_body(info.block, spec, cheap_bits());
    REQUIRE(feed.give(ring::RecordKind::frame, body, spec.steps));
    model_frame(model, info, spec, cheap_bits(), feed.header);
    Content content;
    content.add(*intake.cut(1));
    CHECK(content.points == model);
    CHECK(content.ledger == sums_of(model, info.run));
    CHECK(content.stats.empty());
    CHECK(intake.counters().stats_left_out == 1);
}

TEST_CASE("records of several attempts and blocks in one batch keep apart") {
    Intake intake({});
    const RingInfo a = block_info({{Dtype::f32, "x"}, {Dtype::f32, "y"}}, 0, 8, 2, 1);
    RingInfo b = block_info({{Dtype::f64, "x"}}, 8, 4, 3, 1);
    b.block.block = 8;
    const RingInfo other = block_info({{Dtype::f32, "x"}}, 0, 8, 4, 2);
    Feed fa(intake, a);
    Feed fb(intake, b);
    Feed fo(intake, other);
    Points model;
    const auto give = [&](Feed& f, const RingInfo& info, std::int64_t step) {
        FrameSpec spec;
        spec.step_first = step;
        const BitsOf bits = random_bits(info.block, static_cast<std::uint64_t>(step));
        REQUIRE(f.give(ring::RecordKind::frame, frame_body(info.block, spec, bits), frame_points(info.block, spec)));
        model_frame(model, info, spec, bits, f.header);
    };
    for (std::int64_t step = 0; step < 20; ++step) {
        if (step == 10) fa.header.attempt = 1;
        give(fa, a, step % 12);
        give(fb, b, step);
        give(fo, other, step);
    }
    const auto batch = intake.cut(1);
    REQUIRE(batch);
    Content content;
    content.add(*batch);
    CHECK(content.points == model);
    CHECK(content.ledger == sums_of(model, a.run));
    CHECK(batch->parcels.size() == 2);  // small ones share
    CHECK(batch->marks.size() == 3);
}
