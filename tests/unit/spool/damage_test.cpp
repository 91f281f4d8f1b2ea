// SPDX-License-Identifier: Apache-2.0
//
// Damage of every kind to the files of a closed spool. Opening always succeeds; every good record is kept; what is gone
// is declared; nothing is handed out that is not what was put in.
#include <sys/stat.h>
#include <unistd.h>

#include "spool/fault_point.hpp"
#include "spool/paths.hpp"
#include "tests/unit/spool/support.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

namespace {

struct Made {
    StartId start{};
    std::uint64_t groups = 0;
    std::uint64_t live = 0;
    std::uint64_t bulk = 0;
};
// A small spool: several segments per lane, all groups durable.
Made make_spool(const Options& options, int groups, std::size_t bulk_bytes) {
    auto s = must_open(options);
    Made made{s->start(), 0, 0, 0};
    for (int i = 1; i <= groups; ++i) {
        append_one(*s, {.live = {200},
                        .bulk = {bulk_bytes},
                        .cursors = {{text_bytes("n"), text_bytes(std::to_string(i))}}});
        REQUIRE(s->drain().has_value());
        ++made.groups;
        ++made.live;
        ++made.bulk;
    }
    return made;
}

// Opens a damaged spool and reads it to the end. Every sequence is either there, or declared, or not committed.
void check_damaged(const Options& options, const Made& made, std::uint64_t lost_max, bool must_declare) {
    auto s = must_open(options);
    std::uint64_t committed = 0;
    for (const EndedStart& end : s->ended_starts()) {
        if (end.start == raw(made.start)) committed = end.group;
    }
    std::uint64_t missing = 0;
    for (const Lane lane : {Lane::live, Lane::bulk}) {
        IntervalSet there;
        for (const Fetched& one : fetch_all(*s, lane)) {
            if (one.id.start == made.start) CHECK(there.insert(raw(one.id.seq)));
            CHECK(raw(one.group) <= committed);
        }
        IntervalSet declared;
        for (const Damage& damage : s->damage()) {
            if (damage.start != made.start) continue;
            CHECK(damage.seq_first != 0);
            if (damage.lane == lane && damage.seq_first != 0)
                declared.insert(damage.seq_first, damage.seq_last);
        }
        for (std::uint64_t seq = 1; seq <= made.groups; ++seq) {  // sequence = group here
            if (there.contains(seq)) {
                CHECK(!declared.contains(seq));
                continue;
            }
            ++missing;
            CHECK((declared.contains(seq) || seq > committed));
        }
    }
    CHECK(missing <= lost_max);
    if (must_declare) CHECK((!s->damage().empty() || committed < made.groups));
    // And it works.
    append_one(*s, {.bulk = {100}});
    REQUIRE(s->drain().has_value());
    CHECK(fetch_all(*s, Lane::bulk).size() == 1);
    const auto declared_before = s->damage().size();
    s.reset();
    auto again = must_open(options);
    fetch_all(*again, Lane::live);
    fetch_all(*again, Lane::bulk);
    CHECK(again->damage().size() <= declared_before + 1);
}

Options tiny(const std::string& dir) {
    Options options = small_options(dir);
    options.segment_bytes_min = options.segment_bytes_max = 16U << 10;
    options.engine = Engine::pwritev2;  // opens faster; this file opens thousands
    return options;
}

class Fixture {
public:
    explicit Fixture(int groups, std::size_t bulk_bytes = 3000) {
        made = make_spool(tiny(dir.path("good")), groups, bulk_bytes);
    }
    // A fresh copy to damage.
    Options copy() {
        fs::remove_all(dir.path("bad"));
        fs::copy(dir.path("good"), dir.path("bad"), fs::copy_options::recursive);
        return tiny(dir.path("bad"));
    }
    // Of the copy, by the names of the original.
    std::vector<std::string> segments(const char* lane) const {
        std::vector<std::string> out;
        for (const auto& entry : files_in(dir.path("good") + "/" + lane)) {
            out.push_back(dir.path("bad") + "/" + lane + "/" + fs::path(entry).filename().string());
        }
        return out;
    }
    TempDir dir;
    Made made;
};

}  // namespace

TEST_SUITE("spool damage") {
    TEST_CASE("one bit flipped at any byte of the records loses at most that record's group") {
        Fixture fixture(6);
        fixture.copy();
        for (const char* lane : {"live", "bulk"}) {
            const auto files = fixture.segments(lane);
            for (std::size_t f = 0; f < files.size(); ++f) {
                const Bytes good = slurp(files[f]);
                for (std::size_t at = 0; at < good.size(); at += at % 4096 < 192 ? 3 : 487) {
                    const auto options = fixture.copy();
                    Bytes bad = good;
                    bad[at] ^= static_cast<std::uint8_t>(1U << (at % 8));
                    spit(files[f], bad);
                    CAPTURE(files[f]);
                    CAPTURE(at);
                    const bool in_record = at >= 4096 && good[at] != 0;
                    // A header takes its whole segment: 3 records. The last group may not be committed any more.
                    check_damaged(options, fixture.made, at < 4096 ? 6 : 2, in_record);
                }
            }
        }
    }

    TEST_CASE("a segment cut at any block or odd byte keeps what the others hold") {
        Fixture fixture(6);
        fixture.copy();
        for (const char* lane : {"live", "bulk"}) {
            for (const std::string& file : fixture.segments(lane)) {
                const Bytes good = slurp(file);
                for (std::size_t cut = 0; cut < good.size(); cut += cut % 4096 == 0 ? 1000 : 4096 - 1000) {
                    const auto options = fixture.copy();
                    CAPTURE(file);
                    CAPTURE(cut);
                    spit(file, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)));
                    check_damaged(options, fixture.made, 12, false);
                }
            }
        }
    }

    TEST_CASE("zero-filled from anywhere, and garbage behind the end") {
        Fixture fixture(6);
        fixture.copy();
        for (const char* lane : {"live", "bulk"}) {
            for (const std::string& file : fixture.segments(lane)) {
                const Bytes good = slurp(file);
                for (std::size_t from = 0; from < good.size(); from += 1024) {
                    const auto options = fixture.copy();
                    Bytes bad = good;
                    std::fill(bad.begin() + static_cast<std::ptrdiff_t>(from), bad.end(), std::uint8_t{0});
                    spit(file, bad);
                    CAPTURE(file);
                    CAPTURE(from);
                    check_damaged(options, fixture.made, 12, false);
                }
                const auto options = fixture.copy();
                Bytes longer = good;
                longer.insert(longer.end(), 5000, std::uint8_t{0xA5});
                spit(file, longer);
                check_damaged(options, fixture.made, 12, false);
            }
        }
    }

    TEST_CASE(
        "a damaged record in the middle is named by its sequence, kept in quarantine, and its neighbours are "
        "served") {
        Fixture fixture(12);
        auto options = fixture.copy();
        const std::string file = fixture.segments("bulk")[1];
        Bytes bytes = slurp(file);
        bytes[4096 + 4096 + 700] ^= 1;  // the payload of the second record there
        spit(file, bytes);
        auto s = must_open(options);
        const auto got = seqs_of(fetch_all(*s, Lane::bulk));
        CHECK(got.size() == 11);
        REQUIRE(s->damage().size() == 1);
        const Damage damage = s->damage()[0];
        CHECK(damage.start == fixture.made.start);
        CHECK(damage.lane == Lane::bulk);
        CHECK(damage.seq_first == damage.seq_last);
        CHECK(std::find(got.begin(), got.end(), damage.seq_first) == got.end());
        CHECK(s->stats().quarantined == 1);
        CHECK(as_text(s->cursors().at(text_bytes("n"))) == "12");
        // The bad record pins its segment until its gap is durable, and no longer.
        s->ack_received(fixture.made.start, Lane::bulk, range(1, damage.seq_first - 1));
        s->ack_received(fixture.made.start, Lane::bulk, range(damage.seq_first + 1, 12));
        for (int i = 0; i < 5; ++i) REQUIRE(s->sweep().has_value());
        CHECK(files_in(options.dir + "/bulk").size() == 1);
        s->declare_lost(fixture.made.start, Lane::bulk, range(damage.seq_first, damage.seq_last));
        for (int i = 0; i < 5; ++i) REQUIRE(s->sweep().has_value());
        CHECK(files_in(options.dir + "/bulk").empty());
        CHECK(files_in(options.dir + "/quarantine").size() == 1);
    }

    TEST_CASE("a missing file in the middle or at the front is a declared gap") {
        for (const std::size_t which : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
            Fixture fixture(12);
            auto options = fixture.copy();
            const auto files = fixture.segments("bulk");
            REQUIRE(files.size() >= 4);
            fs::remove(files[which]);
            auto s = must_open(options);
            const auto got = seqs_of(fetch_all(*s, Lane::bulk));
            CHECK(got.size() == 9);
            std::uint64_t declared = 0;
            for (const Damage& damage : s->damage()) {
                CHECK(damage.lane == Lane::bulk);
                declared += damage.seq_last - damage.seq_first + 1;
            }
            CHECK(declared == 3);
        }
    }

    TEST_CASE("two files swapped, and a file of another spool: set aside, not believed, not deleted") {
        Fixture fixture(12);
        auto options = fixture.copy();
        auto files = fixture.segments("bulk");
        fs::rename(files[0], files[0] + ".x");
        fs::rename(files[1], files[0]);
        fs::rename(files[0] + ".x", files[1]);
        check_damaged(options, fixture.made, 6, true);
        CHECK(files_in(options.dir + "/quarantine").size() >= 2);

        Fixture other(3);
        options = fixture.copy();
        fs::copy_file(other.dir.path("good") + "/bulk/" + segment_name(1),
                      fixture.dir.path("bad") + "/bulk/" + segment_name(99));
        {
            auto s = must_open(options);
            CHECK(fetch_all(*s, Lane::bulk).size() == 12);
            CHECK(s->uuid() ==
                  *Uuid::parse(std::string(as_text(slurp(options.dir + "/spool.id"))).substr(17, 36)));
        }
        CHECK(files_in(options.dir + "/quarantine").size() == 1);
    }

    TEST_CASE("rubbish in the folders: zero length, text, links, pipes, folders") {
        Fixture fixture(4);
        const auto options = fixture.copy();
        const std::string live = options.dir + "/live/", bulk = options.dir + "/bulk/";
        spit(live + segment_name(0x50), {});
        spit(bulk + segment_name(0x50), {});
        spit(bulk + "README", text_bytes("not a segment"));
        spit(bulk + "00000000000000ZZ.seg", text_bytes("x"));
        spit(options.dir + "/notes.txt", text_bytes("mine"));
        REQUIRE(::symlink("/etc/passwd", (bulk + segment_name(0x60)).c_str()) == 0);
        REQUIRE(::mkfifo((bulk + segment_name(0x61)).c_str(), 0600) == 0);
        fs::create_directory(bulk + "folder");
        auto s = must_open(options);
        CHECK(s->damage().empty());
        CHECK(s->stats().torn_tails >= 1);
        CHECK(fetch_all(*s, Lane::live).size() == 4);
        CHECK(fetch_all(*s, Lane::bulk).size() == 4);
        CHECK(fs::exists(options.dir + "/notes.txt"));
        CHECK(fs::is_directory(bulk + "folder"));
        CHECK(files_in(options.dir + "/quarantine").size() == 6);
        // Numbers of what was set aside are not used again.
        append_one(*s, {.bulk = {100}});
        REQUIRE(s->drain().has_value());
        CHECK(fs::exists(bulk + segment_name(0x62)));
    }

    TEST_CASE("unfinished segments of many crashes take no space") {
        TempDir dir;
        auto options = small_options(dir.path());
        for (int i = 1; i <= 50; ++i) {
            must_open(options);
            Bytes unfinished(options.segment_bytes_max);
            if (i % 2 == 0) unfinished[100] = 1;  // a torn header
            spit(dir.path() + "/bulk/" + segment_name(static_cast<std::uint64_t>(i)), unfinished);
        }
        auto s = must_open(options);
        CHECK(s->stats().quarantined == 50);
        CHECK(s->stats().torn_tails == 1);
        CHECK(s->stats().bytes_on_disk < 10 * options.segment_bytes_max);
        CHECK(s->damage().empty());
    }

    TEST_CASE("a lane folder that is a link is refused") {
        TempDir dir;
        fs::create_directories(dir.path("elsewhere"));
        fs::create_directories(dir.path());
        fs::create_directory_symlink(dir.path("elsewhere"), dir.path() + "/bulk");
        CHECK(Spool::open(small_options(dir.path())).error().code == Code::denied);
    }

    TEST_CASE("spool.id gone, empty or wrong: the segments say who this is") {
        Fixture fixture(3);
        const auto good = slurp(fixture.dir.path("good") + "/spool.id");
        const auto uuid = *Uuid::parse(std::string(as_text(good)).substr(17, 36));
        for (int kind = 0; kind < 3; ++kind) {
            const auto options = fixture.copy();
            const std::string id = options.dir + "/spool.id";
            if (kind == 0) fs::remove(id);
            if (kind == 1) spit(id, {});
            if (kind == 2) spit(id, text_bytes("tallyman-spool 1\n" + Uuid::random().text() + "\n"));
            auto s = must_open(options);
            CHECK(s->uuid() == uuid);
            CHECK(as_text(slurp(id)) == as_text(good));
            CHECK(fetch_all(*s, Lane::bulk).size() == 3);
        }
    }

    TEST_CASE("ack slots: either may be damaged; both gone means sending again, never a false loss") {
        TempDir dir;
        const auto options = small_options(dir.path("good"));
        StartId start{};
        {
            auto s = must_open(options);
            start = s->start();
            for (int i = 0; i < 30; ++i) append_one(*s, {.bulk = {30000}});
            REQUIRE(s->drain().has_value());
            for (const std::uint64_t upto : {5U, 10U, 15U}) {
                s->ack_received(start, Lane::bulk, range(1, upto));
                REQUIRE(s->sweep().has_value());
            }
        }
        const auto open_copy = [&](const std::function<void(const std::string&)>& damage) {
            fs::remove_all(dir.path("bad"));
            fs::copy(dir.path("good"), dir.path("bad"), fs::copy_options::recursive);
            damage(dir.path("bad"));
            return must_open(small_options(dir.path("bad")));
        };
        const auto flip = [](const std::string& path) {
            Bytes bytes = slurp(path);
            bytes[bytes.size() / 2] ^= 4;
            spit(path, bytes);
        };
        // Generation 1 went to slot 0, 2 to slot 1, 3 to slot 0.
        CHECK(seqs_of(fetch_all(*open_copy([](const std::string&) {}), Lane::bulk)).front() == 16);
        {
            auto s = open_copy([&](const std::string& d) { flip(d + "/acks.1"); });
            CHECK(seqs_of(fetch_all(*s, Lane::bulk)).front() == 16);
            CHECK(s->damage().empty());
        }
        for (const bool both : {false, true}) {
            auto s = open_copy([&](const std::string& d) {
                flip(d + "/acks.0");
                if (both) spit(d + "/acks.1", {});
            });
            const auto got = seqs_of(fetch_all(*s, Lane::bulk));
            CHECK(got.back() == 30);
            CHECK(got.front() <= 16);
            CHECK(s->damage().empty());
            s->ack_received(start, Lane::bulk, range(1, 30));
            REQUIRE(s->sweep().has_value());
        }
        auto s =
            open_copy([&](const std::string& d) { fs::remove(d + "/acks.0"), fs::remove(d + "/acks.1"); });
        CHECK(seqs_of(fetch_all(*s, Lane::bulk)).back() == 30);
    }

    TEST_CASE("a judgement stands: what was dropped once is never committed by a later life") {
        Fixture fixture(6);
        auto options = fixture.copy();
        const std::string file = fixture.segments("bulk").back();
        const Bytes good = slurp(file);
        Bytes bad = good;
        std::size_t last = 4096;
        for (std::size_t at = 4096; at < bad.size(); at += 4096) {
            if (bad[at] == 'T') last = at;
        }
        bad[last + 300] ^= 1;
        spit(file, bad);
        {
            auto s = must_open(options);
            CHECK(s->ended_starts().back().group == 5);
            CHECK(as_text(s->cursors().at(text_bytes("n"))) == "5");
        }
        spit(file, good);  // the disk changes its mind
        auto s = must_open(options);
        const auto& ended = s->ended_starts();
        const auto it = std::find_if(ended.begin(), ended.end(),
                                     [&](const EndedStart& e) { return e.start == raw(fixture.made.start); });
        REQUIRE(it != ended.end());
        CHECK(it->group == 5);
        CHECK(seqs_of(fetch_all(*s, Lane::bulk)).back() == 5);
    }
}
