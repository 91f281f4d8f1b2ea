// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "agent/parcel/planes.hpp"
#include "agent/parcel/tile_codec.hpp"

using namespace tally;
using namespace tally::parcel;

namespace {

constexpr Dtype all_dtypes[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64, Dtype::i8,  Dtype::i16, Dtype::i32,
                                Dtype::i64, Dtype::u8,   Dtype::u16, Dtype::u32, Dtype::u64, Dtype::boolean};

enum class Shape { constant, noise, smooth, counter, sparse, specials };
constexpr Shape all_shapes[] = {Shape::constant, Shape::noise, Shape::smooth, Shape::counter, Shape::sparse, Shape::specials};

std::uint64_t special(Dtype d, std::size_t i) {
    static constexpr std::uint64_t f32[] = {0x80000000, 0x00000001, 0x7fc12345, 0xff800000, 0x7f800001, 0x807fffff};
    static constexpr std::uint64_t f64[] = {0x8000000000000000, 1, 0x7ff8000000000123, 0x7ff0000000000001, INT64_MAX, ~0ULL};
    return d == Dtype::f32 ? f32[i % 6] : f64[i % 6];
}

std::uint64_t value(Shape shape, Dtype d, std::size_t i, std::mt19937_64& rng) {
    switch (shape) {
        case Shape::constant: return 0x8123456789abcdefULL;
        case Shape::noise: return rng();
        case Shape::smooth: {
            const float f = 1.0F + 0.001F * static_cast<float>(rng() % 1000);
            std::uint32_t bits;
            std::memcpy(&bits, &f, 4);
            return std::uint64_t{bits} << 32 | bits;
        }
        case Shape::counter: return i;
        case Shape::sparse: return rng() % 50 == 0 ? rng() : 0;
        case Shape::specials: return special(d, i);
    }
    return 0;
}

Bytes make_values(Shape shape, Dtype d, std::size_t n, std::mt19937_64& rng) {
    const std::uint32_t width = dtype_width(d);
    Bytes out(n * width);
    for (std::size_t i = 0; i < n; ++i) {
        std::uint64_t v = value(shape, d, i, rng);
        if (d == Dtype::boolean) v &= 1;
        std::memcpy(out.data() + i * width, &v, width);
    }
    return out;
}

Tile tile_at(ByteView bytes) {
    Tile t;
    std::memcpy(&t.header, bytes.data(), sizeof t.header);
    t.data = bytes.subspan(sizeof t.header, t.header.data_bytes);
    return t;
}

TileHeader where(std::uint32_t items, std::uint32_t steps) {
    TileHeader h{};
    h.items = items;
    h.steps = steps;
    return h;
}

}  // namespace

TEST_CASE("a tile of every dtype, shape and size comes back bit by bit") {
    std::mt19937_64 rng(1);
    TileEncoder encoder;
    bool seen[3] = {};
    for (const Dtype d : all_dtypes)
        for (const Shape shape : all_shapes)
            for (const auto& [items, steps] : {std::pair{1U, 1U}, {2U, 1U}, {63U, 1U}, {257U, 3U}, {1000U, 64U}, {4096U, 1U}, {4096U, 7U}}) {
                CAPTURE(dtype_name(d));
                CAPTURE(static_cast<int>(shape));
                CAPTURE(items);
                const std::size_t n = std::size_t{items} * steps;
                const std::uint32_t width = dtype_width(d);
                const Bytes values = make_values(shape, d, n, rng);
                Bytes planes(values.size());
                split_planes(values.data(), width, n, planes.data());
                Bytes by_values;
                Bytes by_planes;
                const std::size_t data = encoder.append_values(where(items, steps), d, values, by_values);
                encoder.append_planes(where(items, steps), d, planes, by_planes);
                CHECK(by_values == by_planes);
                CHECK(by_values.size() % 8 == 0);
                const Tile tile = tile_at(by_values);
                CHECK(tile.data.size() == data);
                CHECK(data <= values.size());
                seen[tile.header.transform] = true;
                Bytes decoded;
                REQUIRE(decode_tile(tile, d, decoded));
                REQUIRE(decoded == planes);
                Bytes joined(values.size());
                join_planes(decoded.data(), width, n, joined.data());
                REQUIRE(joined == values);
                CHECK(plane_bits(decoded.data(), width, n, n - 1) == [&] {
                    std::uint64_t bits = 0;
                    std::memcpy(&bits, values.data() + (n - 1) * width, width);
                    return bits;
                }());
            }
    for (const bool s : seen) CHECK(s);
}

TEST_CASE("noise in the low planes does not cost the high planes their compression") {
    std::mt19937_64 rng(2);
    const Bytes values = make_values(Shape::smooth, Dtype::f32, 4096, rng);
    Bytes noisy = values;
    for (std::size_t i = 0; i < noisy.size(); i += 4) {
        noisy[i] = static_cast<std::uint8_t>(rng());
        noisy[i + 1] = static_cast<std::uint8_t>(rng());
    }
    Bytes out;
    TileEncoder encoder;
    encoder.append_values(where(4096, 1), Dtype::f32, noisy, out);
    const Tile tile = tile_at(out);
    CHECK(tile.header.transform == static_cast<std::uint8_t>(Transform::zstd));
    CHECK(tile.data.size() < 4096 * 2 + 4096);
    Bytes planes;
    REQUIRE(decode_tile(tile, Dtype::f32, planes));
    Bytes joined(noisy.size());
    join_planes(planes.data(), 4, 4096, joined.data());
    CHECK(joined == noisy);
}

TEST_CASE("a damaged tile is refused and leaves the output as it was") {
    std::mt19937_64 rng(3);
    Bytes out;
    TileEncoder encoder;
    encoder.append_values(where(4096, 1), Dtype::f32, make_values(Shape::smooth, Dtype::f32, 4096, rng), out);
    const Tile good = tile_at(out);
    REQUIRE(good.header.transform == static_cast<std::uint8_t>(Transform::zstd));
    Bytes sink{1, 2, 3};
    const auto refused = [&](Tile t, Dtype d, Code code) {
        const auto r = decode_tile(t, d, sink);
        REQUIRE_FALSE(r);
        CHECK(r.error().code == code);
        CHECK(sink == Bytes{1, 2, 3});
    };
    Tile t = good;
    t.header.items = 4095;
    refused(t, Dtype::f32, Code::corrupt);
    refused(good, Dtype::f64, Code::corrupt);
    t = good;
    t.data = good.data.first(good.data.size() - 1);
    refused(t, Dtype::f32, Code::corrupt);
    t = good;
    t.header.transform = 9;
    refused(t, Dtype::f32, Code::unsupported);
    t.header.transform = static_cast<std::uint8_t>(Transform::raw);
    refused(t, Dtype::f32, Code::corrupt);
    t.header.transform = static_cast<std::uint8_t>(Transform::constant);
    refused(t, Dtype::f32, Code::corrupt);
    t.header.items = 5000;
    refused(t, Dtype::f32, Code::corrupt);
    const Bytes two(16, 2);
    t = {where(16, 1), two};
    refused(t, Dtype::boolean, Code::corrupt);
    Bytes twice(good.data.begin(), good.data.end());
    twice.insert(twice.end(), good.data.begin(), good.data.end());
    t = good;
    t.data = twice;
    refused(t, Dtype::f32, Code::corrupt);
}
