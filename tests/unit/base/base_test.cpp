// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <set>
#include <filesystem>
#include <string>
#include <thread>

#include "agent/base/bytes.hpp"
#include "agent/base/fd.hpp"
#include "agent/base/hash.hpp"
#include "agent/base/result.hpp"
#include "agent/base/spsc.hpp"
#include "agent/base/types.hpp"
#include "agent/base/units.hpp"

using namespace tally;

TEST_CASE("every error code has a name of its own") {
    std::set<std::string> names;
    for (int c = 0; c <= static_cast<int>(Code::suspect); ++c) names.insert(code_name(static_cast<Code>(c)));
    CHECK(names.size() == static_cast<std::size_t>(Code::suspect) + 1);
    CHECK(names.count("unknown") == 0);
}

TEST_CASE("an error text carries where, code, errno and number") {
    const Error e = fail_errno("open spool", ENOENT, 7).error();
    CHECK(e.code == Code::not_found);
    CHECK(e.text() == "open spool: not_found (No such file or directory) [7]");
}

TEST_CASE("a UUID round-trips through text and refuses everything else") {
    const Uuid u = Uuid::random();
    REQUIRE(Uuid::parse(u.text()));
    CHECK(*Uuid::parse(u.text()) == u);
    CHECK_FALSE(Uuid::parse(u.text().substr(1)));
    std::string bad = u.text();
    bad[8] = '0';
    CHECK_FALSE(Uuid::parse(bad));
    bad = u.text();
    bad[0] = 'g';
    CHECK_FALSE(Uuid::parse(bad));
}

TEST_CASE("run ids and metric names are checked to the byte") {
    CHECK(run_id_valid("ant-v4_2.1"));
    CHECK_FALSE(run_id_valid(""));
    CHECK_FALSE(run_id_valid("a/b"));
    CHECK_FALSE(run_id_valid(std::string(129, 'a')));
    CHECK(metric_name_valid("train/loss \xC3\xA9"));
    CHECK_FALSE(metric_name_valid("a\nb"));
    CHECK_FALSE(metric_name_valid("\xC3"));
    CHECK_FALSE(metric_name_valid("\xED\xA0\x80"));  // a surrogate
    CHECK_FALSE(metric_name_valid("\xF4\x90\x80\x80"));  // beyond U+10FFFF
    CHECK_FALSE(metric_name_valid(std::string(257, 'a')));
}

TEST_CASE("dtype values convert to f64 as the view shows them") {
    CHECK(dtype_to_f64(Dtype::f16, 0x3C00) == 1.0);
    CHECK(dtype_to_f64(Dtype::f16, 0x0001) == std::ldexp(1.0, -24));
    CHECK(dtype_to_f64(Dtype::f16, 0xFC00) == -HUGE_VAL);
    CHECK(std::isnan(dtype_to_f64(Dtype::f16, 0x7E01)));
    CHECK(dtype_to_f64(Dtype::bf16, 0x3F80) == 1.0);
    CHECK(dtype_to_f64(Dtype::i8, 0xFF) == -1.0);
    CHECK(dtype_to_f64(Dtype::i64, 0xFFFFFFFFFFFFFFFFULL) == -1.0);
    CHECK(dtype_to_f64(Dtype::boolean, 1) == 1.0);
    for (std::uint8_t c = 1; c <= 13; ++c) {
        const auto d = static_cast<Dtype>(c);
        CHECK(dtype_parse(dtype_name(d)) == d);
        CHECK(dtype_width(d) > 0);
    }
    CHECK_FALSE(dtype_valid(0));
    CHECK_FALSE(dtype_valid(14));
}

TEST_CASE("intHash64 and XXH3 are the published functions") {
    // intHash64(0), intHash64(1) as ClickHouse 26.7 prints them; checked against the engine in unit_sink.
    CHECK(int_hash64(0) == 4761183170873013810ULL);
    CHECK(int_hash64(1) == 10577349846663553072ULL);
    CHECK(xxh3(std::string_view("")) == 0x2D06800538D394C2ULL);
}

TEST_CASE("a reader past the end yields zeros, says so once, and stays spoiled") {
    Bytes bytes{1, 0, 2};
    ByteReader in(bytes);
    CHECK(in.get<std::uint16_t>() == 1);
    CHECK(in.get<std::uint32_t>() == 0);
    CHECK_FALSE(in.ok());
    CHECK(in.get<std::uint8_t>() == 0);
}

TEST_CASE("sizes, durations and rates need a unit that exists") {
    CHECK(*parse_bytes("64KiB") == 65536);
    CHECK(*parse_bytes("1.5 GiB") == 1610612736);
    CHECK(*parse_bytes("5MB") == 5'000'000);
    CHECK_FALSE(parse_bytes("5 megs"));
    CHECK_FALSE(parse_bytes("-1KiB"));
    CHECK_FALSE(parse_bytes("nanKiB"));
    CHECK_FALSE(parse_bytes("99999999999TiB"));
    CHECK(*parse_duration_ns("50ms") == 50'000'000);
    CHECK_FALSE(parse_duration_ns("50"));
    CHECK(*parse_rate_bytes("20Mbit/s") == 2'500'000);
}

TEST_CASE("an atomic write leaves the old file or the new one, and a read is bounded") {
    const std::string dir = std::filesystem::temp_directory_path() / ("tally-base-" + std::to_string(::getpid()));
    REQUIRE(make_dirs(dir + "/a/b"));
    const std::string path = dir + "/a/b/file";
    REQUIRE(write_file_atomic(path, as_bytes("one")));
    REQUIRE(write_file_atomic(path, as_bytes("two")));
    auto back = read_file(path, 100);
    REQUIRE(back);
    CHECK(as_text(*back) == "two");
    CHECK(read_file(path, 2).error().code == Code::too_big);
    CHECK(read_file(path + "x", 2).error().code == Code::not_found);
    CHECK_FALSE(make_dirs(path));
    std::filesystem::remove_all(dir);
}

TEST_CASE("a queue between two threads keeps order and loses nothing") {
    SpscQueue<int> q(8);
    constexpr int n = 100'000;
    std::jthread producer([&] {
        for (int i = 0; i < n; ++i)
            while (!q.push(int{i})) std::this_thread::yield();
    });
    for (int i = 0; i < n; ++i) {
        std::optional<int> v;
        while (!(v = q.pop())) std::this_thread::yield();
        REQUIRE(*v == i);
    }
    CHECK(q.size() == 0);
}
