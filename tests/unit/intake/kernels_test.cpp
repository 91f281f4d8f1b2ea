// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "agent/base/hash.hpp"
#include "agent/intake/hash_kernel.hpp"
#include "agent/intake/histogram.hpp"
#include "agent/intake/row_list.hpp"
#include "agent/intake/stats_kernel.hpp"
#include "tests/unit/intake/kit.hpp"

using namespace tally;
using namespace tally::intake;
using namespace tally::intake::kit;

TEST_CASE("both hash loops equal point_hash point by point, for every width and length") {
    std::mt19937_64 rng(1);
    for (const Dtype d : all_dtypes)
        for (std::uint32_t n = 0; n < 70; ++n) {
            const std::uint32_t width = dtype_width(d);
            Bytes values(std::size_t{n} * width + 1);
            for (auto& b : values) b = static_cast<std::uint8_t>(rng());
            const std::uint8_t* at = values.data() + rng() % 2;  // any alignment
            std::vector<std::uint32_t> envs(n);
            for (auto& e : envs) e = static_cast<std::uint32_t>(rng() % 1000);
            const std::uint64_t seed = rng();
            const auto step = static_cast<std::int64_t>(rng());
            std::uint64_t dense = 0;
            std::uint64_t rows = 0;
            for (std::uint32_t i = 0; i < n; ++i) {
                std::uint64_t bits = 0;
                std::memcpy(&bits, at + i * width, width);
                dense += point_hash(bits, seed, 4'000'000'000U + i, step);
                rows += point_hash(bits, seed, 4'000'000'000U + envs[i], step);
            }
            REQUIRE(hash_dense(at, d, n, seed, 4'000'000'000U, step) == dense);
            REQUIRE(hash_rows(at, d, envs.data(), n, seed, 4'000'000'000U, step) == rows);
        }
}

TEST_CASE("every f16 and bf16 converts to the f64 that dtype_to_f64 says") {
    for (const Dtype d : {Dtype::f16, Dtype::bf16}) {
        std::vector<std::uint16_t> all(65536);
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
        std::vector<double> out(all.size());
        to_f64(reinterpret_cast<const std::uint8_t*>(all.data()), d, all.size(), out.data());
        for (std::size_t i = 0; i < all.size(); ++i) {
            const double want = dtype_to_f64(d, i);
            const bool same = std::isnan(want) ? std::isnan(out[i]) : std::memcmp(&want, &out[i], sizeof want) == 0;
            REQUIRE_MESSAGE(same, i);
        }
    }
}

TEST_CASE("a summary of nothing finite is zero, of any length exact where f64 is") {
    const double nan = std::nan("");
    const double none[3] = {nan, HUGE_VAL, -HUGE_VAL};
    const Summary s = summarize(reinterpret_cast<const std::uint8_t*>(none), Dtype::f64, 3);
    CHECK(s.count == 3);
    CHECK(s.nonfinite == 3);
    CHECK(s.min == 0);
    CHECK(s.max == 0);
    CHECK(s.sum == 0);
    for (std::uint32_t n = 1; n < 1100; n += 7) {
        std::vector<std::int16_t> v(n);
        for (std::uint32_t i = 0; i < n; ++i) v[i] = static_cast<std::int16_t>(static_cast<int>(i) - 300);
        const Summary t = summarize(reinterpret_cast<const std::uint8_t*>(v.data()), Dtype::i16, n);
        CHECK(t.count == n);
        CHECK(t.nonfinite == 0);
        CHECK(t.min == -300);
        CHECK(t.max == static_cast<double>(n) - 301);
        CHECK(t.sum == n * -300.0 + n * (n - 1.0) / 2);
    }
}

TEST_CASE("a histogram is empty after it was taken, and its counts add up to the finite values") {
    Histogram h;
    const float values[] = {1.0F, 1.0F, -0.0F, 0.0F, std::nanf(""), HUGE_VALF, 3.0e38F};
    h.add(reinterpret_cast<const std::uint8_t*>(values), Dtype::f32, 7);
    std::vector<std::uint16_t> bins;
    std::vector<std::uint32_t> counts;
    h.take(bins, counts);
    CHECK(bins == std::vector<std::uint16_t>{0x0000, 0x3f80, 0x7f61, 0x8000});
    CHECK(counts == std::vector<std::uint32_t>{1, 2, 1, 1});
    bins.clear();
    counts.clear();
    h.take(bins, counts);
    CHECK(bins.empty());
    const double large[] = {1e300, -1e300};
    h.add(reinterpret_cast<const std::uint8_t*>(large), Dtype::f64, 2);
    h.take(bins, counts);
    CHECK(bins == std::vector<std::uint16_t>{0x7f7f, 0xff7f});
}

TEST_CASE("a row list sorts stably by environment for any length, and cuts at ranges and at 4096 rows") {
    std::mt19937_64 rng(2);
    RowList list;
    for (const std::size_t n : {0U, 1U, 7U, 511U, 512U, 6000U})
        for (const std::uint32_t highest : {1U, 50U, 70000U, 1U << 30}) {
            std::vector<std::uint32_t> rows(n);
            for (auto& r : rows) r = static_cast<std::uint32_t>(rng() % highest);
            std::vector<std::uint32_t> order(n);
            for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
            std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rows[a] < rows[b]; });
            list.sort({reinterpret_cast<const std::uint8_t*>(rows.data()), n * 4});
            REQUIRE(list.size() == n);
            // Gathering the positions themselves shows the permutation.
            std::vector<std::uint32_t> positions(n);
            std::vector<std::uint32_t> seen(n);
            for (std::uint32_t i = 0; i < n; ++i) positions[i] = i;
            list.gather(reinterpret_cast<const std::uint8_t*>(positions.data()), 4, 0, n,
                        reinterpret_cast<std::uint8_t*>(seen.data()));
            REQUIRE(seen == order);
            for (std::size_t first = 0; first < n;) {
                const std::size_t end = list.piece_end(first);
                REQUIRE(end > first);
                REQUIRE(end - first <= 4096);
                REQUIRE(list.envs()[first] / 4096 == list.envs()[end - 1] / 4096);
                REQUIRE((end == n || end - first == 4096 || list.envs()[end] / 4096 != list.envs()[first] / 4096));
                first = end;
            }
        }
}
