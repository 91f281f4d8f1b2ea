// SPDX-License-Identifier: Apache-2.0
// One stamped parcel of each section kind, as hex beside this file, byte for byte. With TALLY_GOLDEN_WRITE=1 in the
// environment the files are written anew: that is a change of the format.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "agent/base/hash.hpp"
#include "tests/unit/parcel/samples.hpp"

using namespace tally;
using namespace tally::parcel;

namespace {

std::string hex(ByteView bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        out += digits[bytes[i] >> 4];
        out += digits[bytes[i] & 15];
        out += i % 16 == 15 ? '\n' : ' ';
    }
    if (out.back() != '\n') out.back() = '\n';
    return out;
}

std::string path_of(const char* name) { return std::string("tests/golden/parcel/") + name + ".hex"; }

std::string stored(const char* name) {
    std::ifstream in(path_of(name));
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("the bytes of one parcel of each section kind have not changed") {
    for (const auto& section : samples::bodies()) {
        const std::string now = hex(samples::parcel_of(section));
        if (std::getenv("TALLY_GOLDEN_WRITE") != nullptr) std::ofstream(path_of(section.name)) << now;
        CHECK_MESSAGE(stored(section.name) == now, section.name);
    }
}

TEST_CASE("a compressed tile written by an earlier build still decodes") {
    // 64 values 0, 1, 2, 3 repeating, u8, as one zstd frame.
    const Bytes frame = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x40, 0x55, 0x00, 0x00, 0x20,
                         0x00, 0x01, 0x02, 0x03, 0x01, 0x00, 0x59, 0x72, 0x44};
    Tile t;
    t.header.items = 64;
    t.header.steps = 1;
    t.header.transform = static_cast<std::uint8_t>(Transform::zstd);
    t.data = frame;
    Bytes planes;
    REQUIRE(decode_tile(t, Dtype::u8, planes));
    for (std::size_t i = 0; i < 64; ++i) CHECK(planes[i] == i % 4);
}

TEST_CASE("the ledger hash of known points has not changed") {
    // Computed once with independent arithmetic; any other number would disagree with what stores already hold.
    const std::uint64_t seed = series_seed("run-1", samples::uuid(0x10), 2, Dtype::f32, "reward");
    CHECK(seed == xxh3(std::string_view("run-1|10111213-1415-1617-1819-1a1b1c1d1e1f|2|f32|reward")));
    CHECK(int_hash64(0) == 0x42131ede3a743632ULL);
    CHECK(point_hash(0x3fc00000, 12345, 101, -3) == 0xf9ff4bd2ae6488caULL);
}
