// SPDX-License-Identifier: Apache-2.0
#include "agent/base/interval_set.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using tally::ByteReader;
using tally::Bytes;
using tally::ByteWriter;
using tally::IntervalSet;

namespace {

std::set<std::uint64_t> expand(const IntervalSet& s) {
    std::set<std::uint64_t> out;
    for (const auto& i : s.intervals())
        for (std::uint64_t v = i.first; v <= i.last; ++v) out.insert(v);
    return out;
}

}  // namespace

TEST_CASE("an interval set equals a plain set of values under random inserts") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        std::mt19937_64 rng(seed);
        IntervalSet s;
        std::set<std::uint64_t> model;
        for (int i = 0; i < 60; ++i) {
            const std::uint64_t first = rng() % 100;
            const std::uint64_t last = first + rng() % 6;
            bool fresh = false;
            for (std::uint64_t v = first; v <= last; ++v) fresh |= model.insert(v).second;
            REQUIRE(s.insert(first, last) == fresh);
            REQUIRE(expand(s) == model);
            REQUIRE(s.count() == model.size());
            for (std::size_t k = 1; k < s.intervals().size(); ++k)
                REQUIRE(s.intervals()[k - 1].last + 1 < s.intervals()[k].first);
        }
        for (std::uint64_t v = 0; v < 110; ++v) REQUIRE(s.contains(v) == (model.count(v) > 0));
        std::set<std::uint64_t> gaps;
        for (const auto& g : s.missing(5, 90))
            for (std::uint64_t v = g.first; v <= g.last; ++v) gaps.insert(v);
        for (std::uint64_t v = 5; v <= 90; ++v) REQUIRE(gaps.count(v) == (model.count(v) == 0 ? 1U : 0U));
        std::uint64_t reach = 9;
        while (model.count(reach + 1) > 0) ++reach;
        REQUIRE(s.contiguous_from(10) == (model.count(10) > 0 ? reach : 9));
    }
}

TEST_CASE("the ends of the number range do not wrap") {
    IntervalSet s;
    CHECK(s.insert(UINT64_MAX));
    CHECK(s.insert(0));
    CHECK(s.insert(UINT64_MAX - 1));
    CHECK_FALSE(s.insert(UINT64_MAX - 1, UINT64_MAX));
    CHECK(s.intervals().size() == 2);
}

TEST_CASE("bytes round-trip, and unsorted, touching or cut bytes are refused") {
    IntervalSet s;
    s.insert(1, 5);
    s.insert(9, 9);
    Bytes bytes;
    ByteWriter(bytes).put(std::uint32_t{0});
    bytes.clear();
    ByteWriter out(bytes);
    s.write(out);
    ByteReader in(bytes);
    auto back = IntervalSet::read(in);
    REQUIRE(back);
    CHECK(*back == s);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        ByteReader cut(tally::ByteView(bytes).first(n));
        CHECK_FALSE(IntervalSet::read(cut));
    }
    Bytes touching = bytes;
    ByteWriter(touching).patch(20, std::uint64_t{6});
    ByteReader bad(touching);
    CHECK(IntervalSet::read(bad).error().code == tally::Code::corrupt);
}
