// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "tests/unit/parcel/samples.hpp"

using namespace tally;
using namespace tally::parcel;

namespace {

struct Reader {
    const char* name;
    std::function<Code(ByteView)> read;  // ok when accepted
};

template <class R>
Code code_of(const R& r) {
    return r ? Code::ok : r.error().code;
}

TileHeader where(std::uint32_t frame, std::uint16_t metric, std::uint32_t item_first, std::uint32_t items,
                 std::uint32_t step_offset, std::uint32_t steps) {
    return {frame, metric, 0, 0, item_first, items, step_offset, steps, 0, 0};
}

std::vector<Reader> readers() {
    return {{"frames", [](ByteView b) { return code_of(read_frames(b)); }},
            {"scalars", [](ByteView b) { return code_of(read_scalars(b)); }},
            {"ledger", [](ByteView b) { return code_of(read_ledger(b)); }},
            {"episodes", [](ByteView b) { return code_of(read_episodes(b)); }},
            {"stats", [](ByteView b) { return code_of(read_stats(b)); }},
            {"events", [](ByteView b) { return code_of(read_events(b)); }},
            {"producers", [](ByteView b) { return code_of(read_producers(b)); }},
            {"gaps", [](ByteView b) { return code_of(read_gaps(b)); }},
            {"start", [](ByteView b) { return code_of(read_start(b)); }}};
}

}  // namespace

TEST_CASE("what was written is what is read, for every kind of section") {
    const auto bodies = samples::bodies();
    const auto scalars = read_scalars(bodies[1].body);
    REQUIRE(scalars);
    const auto want = samples::scalars();
    CHECK(scalars->origin == want.origin);
    REQUIRE(scalars->series.size() == want.series.size());
    for (std::size_t i = 0; i < want.series.size(); ++i) {
        CHECK(scalars->series[i].metric == want.series[i].metric);
        CHECK(scalars->series[i].steps == want.series[i].steps);
        CHECK(scalars->series[i].times_ns == want.series[i].times_ns);
        CHECK(scalars->series[i].rl_steps == want.series[i].rl_steps);
        CHECK(scalars->series[i].bits == want.series[i].bits);
    }
    // Written again from what was read, the bytes are the same: nothing was lost or invented.
    const auto again = [&](std::size_t i, auto read, auto write) {
        const auto section = read(ByteView(bodies[i].body));
        REQUIRE(section);
        Bytes out;
        write(*section, out);
        CHECK_MESSAGE(out == bodies[i].body, bodies[i].name);
    };
    again(1, read_scalars, write_scalars);
    again(2, read_ledger, write_ledger);
    again(3, read_episodes, write_episodes);
    again(4, read_stats, write_stats);
    again(5, read_events, write_events);
    again(6, read_producers, write_producers);
    again(7, read_gaps, write_gaps);
    again(8, read_start, write_start);
}

TEST_CASE("a frames section comes back with its tables and tiles") {
    const Bytes body = samples::frames_body();
    const auto s = read_frames(body);
    REQUIRE(s);
    CHECK(s->origin == samples::origin());
    CHECK(s->block == 1);
    CHECK(s->env_first == 100);
    CHECK(s->env_count == 5);
    REQUIRE(s->frames.size() == 3);
    CHECK(s->frames[0].rl_step == MaybeStep{true, 3});
    CHECK(s->frames[1].steps == 3);
    CHECK(s->frames[1].step_stride == 2);
    CHECK(s->frames[2].rows == std::vector<std::uint32_t>{0, 2, 2, 4});
    REQUIRE(s->tiles.size() == 3);
    CHECK(s->tiles[0].header.transform == static_cast<std::uint8_t>(Transform::raw));
    CHECK(s->tiles[1].header.transform == static_cast<std::uint8_t>(Transform::constant));
    Bytes planes;
    REQUIRE(decode_tile(s->tiles[1], Dtype::u8, planes));
    CHECK(planes == Bytes(15, 3));
}

TEST_CASE("a list of environments shared by neighbours is written once and read into each entry") {
    LedgerSection s = samples::ledger();
    Bytes plain;
    write_ledger(s, plain);
    s.entries[2].env_points.clear();
    s.entries[2].same_list = true;
    Bytes shared;
    write_ledger(s, shared);
    CHECK(plain.size() - shared.size() == 3 * sizeof(EnvCount));
    const auto read = read_ledger(shared);
    REQUIRE(read);
    CHECK(read->entries[2].env_points == read->entries[1].env_points);
}

TEST_CASE("every prefix of a section is refused, and so is a byte behind it") {
    const auto all = readers();
    const auto bodies = samples::bodies();
    for (std::size_t k = 0; k < bodies.size(); ++k) {
        CAPTURE(bodies[k].name);
        const Bytes& body = bodies[k].body;
        REQUIRE(all[k].read(body) == Code::ok);
        for (std::size_t n = 0; n < body.size(); ++n) REQUIRE(all[k].read(ByteView(body).first(n)) != Code::ok);
        Bytes longer = body;
        longer.push_back(0);
        CHECK(all[k].read(longer) == Code::corrupt);
    }
}

TEST_CASE("no change of bytes makes a reader crash or reserve what is not there (I1)") {
    std::mt19937_64 rng(7);
    const auto all = readers();
    const auto bodies = samples::bodies();
    for (std::size_t k = 0; k < bodies.size(); ++k) {
        std::size_t refused = 0;
        for (int round = 0; round < 3000; ++round) {
            Bytes b = bodies[k].body;
            for (std::size_t i = 0; i < 1 + rng() % 3; ++i) b[rng() % b.size()] = static_cast<std::uint8_t>(rng() % 3 ? 0xFF : rng());
            for (const Reader& r : all) refused += static_cast<std::size_t>(r.read(b) != Code::ok);
        }
        CHECK(refused > 0);
    }
}

TEST_CASE("tables that point outside of the section are refused") {
    FrameSection s;
    s.origin = samples::origin();
    s.env_count = 10;
    s.metrics = {{Dtype::u8, "m"}};
    s.frames.resize(1);
    const auto code = [&](TileHeader h, std::vector<std::uint32_t> rows = {}) {
        FrameSection copy = s;
        copy.frames[0].rows_listed = !rows.empty();
        copy.frames[0].rows = std::move(rows);
        copy.env_count = copy.frames[0].rows_listed ? 10000 : 10;
        Bytes out;
        write_frames_head(copy, out);
        h.items = h.items == 0 ? 1 : h.items;
        h.steps = h.steps == 0 ? 1 : h.steps;
        const Bytes values(std::size_t{h.items} * h.steps, 0);
        append_tile(h, Dtype::u8, values, out);
        finish_frames(0, out);
        return code_of(read_frames(out));
    };
    CHECK(code(where(0, 0, 0, 0, 0, 0)) == Code::ok);
    CHECK(code(where(1, 0, 0, 0, 0, 0)) == Code::corrupt);
    CHECK(code(where(0, 1, 0, 0, 0, 0)) == Code::corrupt);
    CHECK(code(where(0, 0, 9, 1, 0, 0)) == Code::ok);
    CHECK(code(where(0, 0, 9, 2, 0, 0)) == Code::corrupt);
    CHECK(code(where(0, 0, UINT32_MAX, 2, 0, 0)) == Code::corrupt);
    CHECK(code(where(0, 0, 0, 4097, 0, 0)) == Code::corrupt);
    CHECK(code(where(0, 0, 0, 0, 1, 0)) == Code::corrupt);
    CHECK(code(where(0, 0, 0, 0, 0, 2)) == Code::corrupt);
    CHECK(code(where(0, 0, 0, 2, 0, 0), {4095, 4095}) == Code::ok);
    CHECK(code(where(0, 0, 0, 2, 0, 0), {4095, 4096}) == Code::corrupt);  // two ranges
    CHECK(code(where(0, 0, 0, 2, 0, 0), {7, 6}) == Code::corrupt);        // not sorted
    CHECK(code(where(0, 0, 0, 1, 0, 0), {10000}) == Code::corrupt);       // no such environment
}
