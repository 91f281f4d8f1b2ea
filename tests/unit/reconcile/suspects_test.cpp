// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>

#include "agent/base/hash.hpp"
#include "tools/reconcile/suspects.hpp"

using namespace tally;
using namespace tally::reconcile;

namespace {

struct Tile {
    std::uint64_t seed = 77;
    std::vector<FoundPoint> points;
    std::uint64_t hash = 0;
    Tile() {
        std::mt19937_64 random(5);
        for (std::uint32_t env = 100; env < 200; ++env)
            for (std::int64_t step = -2; step < 2; ++step) points.push_back({env, step, random() >> 32});
        for (const FoundPoint& p : points) hash += point_hash(p.bits, seed, p.env, p.step);
    }
};

}  // namespace

TEST_CASE("the value hash is inverted exactly") {
    std::mt19937_64 random(1);
    for (int i = 0; i < 1000; ++i) {
        const std::uint64_t x = random();
        CHECK(int_hash64_inverse(int_hash64(x)) == x);
    }
}

TEST_CASE("one flipped bit is named with its place, the value logged and the value found") {
    Tile t;
    t.points[123].bits ^= 1U << 17;
    const auto s = find_suspect(t.points, {}, t.seed, Dtype::f32, t.points.size(), t.hash);
    REQUIRE(s);
    CHECK(s->at == Coordinates{t.points[123].env, t.points[123].step});
    CHECK(s->found.find("bit 17 flipped") != std::string::npos);
}

TEST_CASE("a value altered altogether is named too") {
    Tile t;
    const std::uint64_t was = t.points[7].bits;
    t.points[7].bits = 0x3F800000;
    const auto s = find_suspect(t.points, {}, t.seed, Dtype::f32, t.points.size(), t.hash);
    REQUIRE(s);
    CHECK(s->at == Coordinates{t.points[7].env, t.points[7].step});
    char hex[16];
    std::snprintf(hex, sizeof hex, "0x%08llx", static_cast<unsigned long long>(was));
    CHECK(s->expected.find(hex) != std::string::npos);
}

TEST_CASE("a doubled point and a missing one are named, the missing one with its value") {
    Tile t;
    const FoundPoint victim = t.points[50];
    t.points.push_back(victim);
    auto s = find_suspect(t.points, {}, t.seed, Dtype::f32, t.points.size() - 1, t.hash);
    REQUIRE(s);
    CHECK(s->at == Coordinates{victim.env, victim.step});
    t.points.pop_back();
    t.points.erase(t.points.begin() + 50);
    s = find_suspect(t.points, {{victim.env, victim.step}}, t.seed, Dtype::f32, t.points.size() + 1, t.hash);
    REQUIRE(s);
    char hex[16];
    std::snprintf(hex, sizeof hex, "0x%08llx", static_cast<unsigned long long>(victim.bits));
    CHECK(s->expected.find(hex) != std::string::npos);
}

TEST_CASE("two wrong points of one tile are not blamed on one") {
    Tile t;
    t.points[3].bits ^= 1;
    t.points[9].bits ^= 4;
    CHECK(!find_suspect(t.points, {}, t.seed, Dtype::f32, t.points.size(), t.hash));
}
