// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>

#include "agent/base/hash.hpp"
#include "tests/unit/parcel/samples.hpp"

using namespace tally;
using namespace tally::parcel;

namespace {

// A change of the header with a checksum that fits again.
template <class F>
Bytes changed(Bytes parcel, F change) {
    ParcelHeader h;
    std::memcpy(&h, parcel.data(), sizeof h);
    change(h);
    std::memcpy(parcel.data(), &h, sizeof h);
    h.xxh3 = xxh3(ByteView(parcel).subspan(16));
    std::memcpy(parcel.data() + 8, &h.xxh3, 8);
    return parcel;
}

Bytes all_sections(bool compress) {
    ParcelBuilder builder;
    CHECK(builder.empty());
    for (const auto& s : samples::bodies()) builder.add(s.kind, s.body, compress);
    const std::size_t expected = builder.bytes();
    Bytes out = builder.finish(Lane::live, 17, 123);
    CHECK(out.size() == expected);
    CHECK(builder.empty());
    stamp(out, samples::identity(Lane::live));
    return out;
}

}  // namespace

TEST_CASE("a parcel opens with the identity it was stamped with and the sections it was built from") {
    for (const bool compress : {false, true}) {
        const Bytes bytes = all_sections(compress);
        const auto view = ParcelView::open(bytes);
        REQUIRE(view);
        CHECK(view->header().points == 17);
        CHECK(view->header().created_ns == 123);
        const Identity want = samples::identity(Lane::live);
        CHECK(view->identity().spool == want.spool);
        CHECK(view->identity().id == want.id);
        CHECK(view->identity().group == want.group);
        const auto bodies = samples::bodies();
        REQUIRE(view->sections().size() == bodies.size());
        std::size_t zstd = 0;
        for (std::size_t i = 0; i < bodies.size(); ++i) {
            CHECK(view->sections()[i].kind == static_cast<std::uint16_t>(bodies[i].kind));
            zstd += static_cast<std::size_t>((view->sections()[i].flags & section_zstd) != 0);
            Bytes scratch;
            const auto body = view->body(i, scratch);
            REQUIRE(body);
            CHECK(Bytes(body->begin(), body->end()) == bodies[i].body);
        }
        CHECK((zstd > 0) == compress);
    }
}

TEST_CASE("every flipped bit, every cut and every byte behind a parcel is refused (I4)") {
    Bytes bytes = all_sections(true);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        for (unsigned bit = 0; bit < 8; ++bit) {
            bytes[i] ^= static_cast<std::uint8_t>(1U << bit);
            REQUIRE_FALSE(peek(bytes));
            REQUIRE_FALSE(ParcelView::open(bytes));
            bytes[i] ^= static_cast<std::uint8_t>(1U << bit);
        }
    for (std::size_t n = 0; n < bytes.size(); ++n) REQUIRE_FALSE(peek(ByteView(bytes).first(n)));
    Bytes longer = bytes;
    longer.push_back(0);
    CHECK(peek(longer).error().code == Code::corrupt);
    REQUIRE(peek(bytes));
}

TEST_CASE("a header that lies with a fitting checksum is refused with the code that says why") {
    const Bytes good = all_sections(false);
    const auto code = [&](auto change) { return peek(changed(good, change)).error().code; };
    CHECK(code([](ParcelHeader& h) { h.version = 2; }) == Code::unsupported);
    CHECK(code([](ParcelHeader& h) { h.flags = 1; }) == Code::unsupported);
    CHECK(code([](ParcelHeader& h) { h.magic ^= 1; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.header_bytes = 120; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.lane = 3; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.start = 0; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.seq = 0; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.group = 0; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.sections = 4097; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.table_bytes += 24; }) == Code::corrupt);
    CHECK(code([](ParcelHeader& h) { h.total_bytes = parcel_bytes_max + 1; }) == Code::too_big);
    CHECK(code([](ParcelHeader& h) { h.total_bytes += 8; }) == Code::truncated);
    CHECK(code([](ParcelHeader& h) {
              h.sections = 4096;
              h.table_bytes = 4096 * 24;
          }) == Code::truncated);
}

TEST_CASE("a section table that overlaps, leaves the parcel or promises too much is refused") {
    const Bytes good = all_sections(false);
    const auto code = [&](std::size_t index, auto change) {
        Bytes b = good;
        SectionEntry e;
        std::uint8_t* at = b.data() + sizeof(ParcelHeader) + index * sizeof e;
        std::memcpy(&e, at, sizeof e);
        change(e);
        std::memcpy(at, &e, sizeof e);
        const auto r = peek(changed(b, [](ParcelHeader&) {}));
        return r ? Code::ok : r.error().code;
    };
    CHECK(code(1, [](SectionEntry& e) { e.offset += 4; }) == Code::corrupt);
    CHECK(code(1, [](SectionEntry& e) { e.offset -= 8; }) == Code::corrupt);
    CHECK(code(0, [](SectionEntry& e) { e.offset = 8; }) == Code::corrupt);
    CHECK(code(1, [](SectionEntry& e) { e.bytes = e.raw_bytes = UINT32_MAX; }) == Code::corrupt);
    CHECK(code(1, [](SectionEntry& e) { e.raw_bytes = section_raw_bytes_max + 1; }) == Code::too_big);
    CHECK(code(1, [](SectionEntry& e) { e.raw_bytes -= 1; }) == Code::corrupt);
    CHECK(code(1, [](SectionEntry& e) { e.kind = 999; }) == Code::ok);  // for the reader of sections to skip or refuse
}

TEST_CASE("a section with unknown flags, a wrong checksum or a wrong raw size is refused alone") {
    Bytes b = all_sections(true);
    std::size_t zstd = 0;
    const auto probe = ParcelView::open(b);
    REQUIRE(probe);
    while ((probe->sections()[zstd].flags & section_zstd) == 0) ++zstd;
    const auto code = [&](auto change) {
        Bytes copy = b;
        SectionEntry e;
        std::uint8_t* at = copy.data() + sizeof(ParcelHeader) + zstd * sizeof e;
        std::memcpy(&e, at, sizeof e);
        change(e);
        std::memcpy(at, &e, sizeof e);
        copy = changed(copy, [](ParcelHeader&) {});
        const auto view = ParcelView::open(copy);
        REQUIRE(view);
        Bytes scratch;
        const std::size_t other = zstd == 0 ? 1 : 0;
        CHECK(view->body(other, scratch));
        const auto body = view->body(zstd, scratch);
        return body ? Code::ok : body.error().code;
    };
    CHECK(code([](SectionEntry&) {}) == Code::ok);
    CHECK(code([](SectionEntry& e) { e.flags |= section_optional; }) == Code::ok);
    CHECK(code([](SectionEntry& e) { e.flags |= 4; }) == Code::unsupported);
    CHECK(code([](SectionEntry& e) { e.xxh3 ^= 1; }) == Code::corrupt);
    CHECK(code([](SectionEntry& e) { e.raw_bytes += 1; }) == Code::corrupt);
}
