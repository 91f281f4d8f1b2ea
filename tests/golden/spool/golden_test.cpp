// SPDX-License-Identifier: Apache-2.0
//
// The bytes of one spool made from fixed ids, as hexdumps kept beside this file. A difference means that the format
// changed: then FORMAT.md, the version and older fixtures need a decision. GOLDEN_WRITE=1 writes them anew.
#include "spool/paths.hpp"
#include "tests/unit/spool/support.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

namespace {

std::string hexdump(const Bytes& bytes) {
    std::string out;
    bool skipping = false;
    for (std::size_t at = 0; at < bytes.size(); at += 16) {
        const std::size_t n = std::min<std::size_t>(16, bytes.size() - at);
        const bool zero =
            std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + n), [](auto b) { return b == 0; });
        if (zero) {
            if (!skipping) out += "*\n";
            skipping = true;
            continue;
        }
        skipping = false;
        out += hex16(at).substr(8) + " ";
        for (std::size_t i = 0; i < n; ++i) out += " " + hex16(bytes[at + i]).substr(14);
        out += "\n";
    }
    return out;
}

void compare(const std::string& name, const std::string& file) {
    const std::string golden = "tests/golden/spool/" + name + ".hex";
    const std::string now = hexdump(slurp(file));
    if (std::getenv("GOLDEN_WRITE") != nullptr) spit(golden, text_bytes(now));
    CHECK(std::string(as_text(slurp(golden))) == now);
}

Seams fixed() {
    Seams seams = real_seams();
    seams.random = [n = std::uint64_t{0}]() mutable { return 0x1111111111111111ULL * ++n; };
    seams.wall_ns = [] { return std::int64_t{1'800'000'000'000'000'000}; };
    seams.uuid = [] { return *Uuid::parse("00112233-4455-4677-8899-aabbccddeeff"); };
    return seams;
}

}  // namespace

TEST_CASE("segment headers, records and the ack file have the bytes they had") {
    TempDir dir;
    Options options = small_options(dir.path());
    {
        auto s = must_open(options, fixed());
        append_one(*s,
                   {.live = {16}, .bulk = {20, 5000}, .cursors = {{text_bytes("key"), text_bytes("value")}}});
        REQUIRE(s->drain().has_value());
        append_one(*s, {.live = {16}, .cursors = {{text_bytes("other"), text_bytes("v2")}}});
        REQUIRE(s->drain().has_value());
        s->ack_received(s->start(), Lane::bulk, range(1, 1));
        s->ack_stored(s->start(), Lane::live, range(2, 2));
        REQUIRE(s->sweep().has_value());
    }
    Seams second = fixed();
    second.random = [n = std::uint64_t{0}]() mutable { return 0x0F0F0F0F0F0F0F0FULL + ++n; };
    auto s = must_open(options, second);
    compare("live-1", dir.path() + "/live/" + segment_name(1));
    compare("live-2", dir.path() + "/live/" + segment_name(2));  // starts table and cursor table
    compare("bulk-1", dir.path() + "/bulk/" + segment_name(1));
    compare("acks-0", dir.path() + "/acks.0");
    compare("spool-id", dir.path() + "/spool.id");
}
