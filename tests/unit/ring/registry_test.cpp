// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "agent/ring/names.hpp"
#include "tests/unit/ring/fixture.hpp"

using namespace tally;
using namespace tally::ring;
using namespace tally::ring::test;

namespace {

bool opens(const Ring& ring) {
    const Mapping mapping = ring.map();
    return Consumer::open(mapping, 0, 0, 0).has_value();
}

}  // namespace

TEST_CASE("I1 names that the product does not allow are refused") {
    for (const std::string_view name : {std::string_view(""), std::string_view("a\nb"), std::string_view("\xC0\x80"),
                                        std::string_view("\xED\xA0\x80"), std::string_view("a\0b", 3)}) {
        Ring ring;
        put_series(ring.producer, 0, Dtype::f32, name);
        CHECK(!opens(ring));
    }
    Ring good;
    put_series(good.producer, 0, Dtype::f32, "train/lösung");
    CHECK(opens(good));
}

TEST_CASE("I3 series ids out of order, twice the same series, or an unknown dtype are refused") {
    {
        Ring ring;
        put_series(ring.producer, 1, Dtype::f32, "a");
        CHECK(!opens(ring));
    }
    {
        Ring ring;
        put_series(ring.producer, 0, Dtype::f32, "a");
        put_series(ring.producer, 1, Dtype::f64, "a");
        CHECK(opens(ring));
        put_series(ring.producer, 2, Dtype::f32, "a");
        CHECK(!opens(ring));
    }
    {
        Ring ring;
        put_series(ring.producer, 0, static_cast<Dtype>(14), "a");
        CHECK(!opens(ring));
    }
}

TEST_CASE("I2 a second producer entry, or a block in a scalar ring, is refused") {
    {
        Ring ring;
        put_producer(ring.producer);
        CHECK(!opens(ring));
    }
    {
        Ring ring;
        put_block(ring.producer, 4, {{Dtype::f32, "a"}});
        CHECK(!opens(ring));
    }
}

TEST_CASE("a block's counts and names are bounded") {
    const auto accepted = [](std::uint32_t id, std::uint32_t first, std::uint32_t count, std::vector<MetricInfo> metrics) {
        Ring ring(RingKind::block, 1 << 20);
        put_block(ring.producer, count, metrics, id, first);
        return opens(ring);
    };
    CHECK(accepted(1, 0, 4, {{Dtype::f32, "a"}, {Dtype::boolean, "b"}}));
    CHECK(accepted(1, UINT32_MAX - 3, 4, {{Dtype::f32, "a"}}));
    CHECK(!accepted(1, UINT32_MAX - 2, 4, {{Dtype::f32, "a"}}));
    CHECK(!accepted(0, 0, 4, {{Dtype::f32, "a"}}));
    CHECK(!accepted(1, 0, 0, {{Dtype::f32, "a"}}));
    CHECK(!accepted(1, 0, envs_max + 1, {{Dtype::f32, "a"}}));
    CHECK(!accepted(1, 0, 4, {}));
    CHECK(!accepted(1, 0, 4, {{Dtype::f32, "a"}, {Dtype::f32, "a"}}));
}

TEST_CASE("a registry length that lies is refused") {
    for (const std::uint32_t used : {4U, 65536U + 8U, UINT32_MAX}) {
        Ring ring;
        ring.control().producer.registry_used.store(used);
        CHECK(!opens(ring));
    }
}

TEST_CASE("the client's name rules are the agent's") {
    std::mt19937_64 rng(7);
    const std::string_view alphabet = "aZ9_.-/ \n\x7F\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED\xA0\x80\xC0";
    for (int i = 0; i < 100000; ++i) {
        std::string name;
        const std::size_t n = rng() % 8;
        while (name.size() < n) name += rng() % 3 == 0 ? static_cast<char>(rng()) : alphabet[rng() % alphabet.size()];
        CHECK_MESSAGE(metric_name_valid(name) == name_ok(name.data(), name.size()), name);
        CHECK_MESSAGE(run_id_valid(name) == run_id_ok(name.data(), name.size()), name);
    }
    for (const std::size_t n : {128U, 129U, 256U, 257U}) {
        const std::string name(n, 'x');
        CHECK(metric_name_valid(name) == name_ok(name.data(), n));
        CHECK(run_id_valid(name) == run_id_ok(name.data(), n));
    }
}
