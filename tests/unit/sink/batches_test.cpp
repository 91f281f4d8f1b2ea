// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/sink/kit.hpp"
#include "transport/sink/batches.hpp"

using namespace tally;

namespace {

sink::LandingSets range(std::uint64_t first, std::uint64_t last) {
    sink::LandingSets sets;
    sets[StartId{9}].insert(first, last);
    return sets;
}

void append_bytes(const std::string& path, const Bytes& bytes) {
    Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND));
    REQUIRE(write_all(fd.get(), bytes));
}

}  // namespace

TEST_CASE("I1 a plan is open until it is done, over restarts") {
    const kit::TempDir dir;
    std::uint64_t first = 0;
    {
        auto ledger = sink::BatchLedger::open(dir.path, Uuid{});
        REQUIRE(ledger);
        first = *ledger->plan(range(1, 10));
    }
    {
        auto ledger = sink::BatchLedger::open(dir.path, Uuid{});
        REQUIRE(ledger->open_plans().size() == 1);
        CHECK(ledger->open_plans()[0].batch == first);
        CHECK(ledger->open_plans()[0].records == range(1, 10));
        CHECK(!ledger->is_stored(StartId{9}, Seq{5}));
        const auto second = ledger->plan(range(11, 12));
        REQUIRE(second);
        CHECK(*second != first);
        REQUIRE(ledger->done(first));
    }
    auto ledger = sink::BatchLedger::open(dir.path, Uuid{});
    CHECK(ledger->open_plans().size() == 1);
    CHECK(ledger->is_stored(StartId{9}, Seq{5}));
    CHECK(!ledger->is_stored(StartId{9}, Seq{11}));
    CHECK(!ledger->is_stored(StartId{8}, Seq{5}));
}

TEST_CASE("a torn or flipped tail is kept aside and what stands before it counts") {
    for (const bool flip : {false, true}) {
        const kit::TempDir dir;
        const std::string path = dir.path + "/batches/batches.log";
        std::uint64_t batch = 0;
        {
            auto ledger = sink::BatchLedger::open(dir.path, Uuid{});
            batch = *ledger->plan(range(1, 10));
            REQUIRE(ledger->done(batch));
            (void)ledger->plan(range(11, 20));
        }
        if (flip) {
            Bytes all = *read_file(path, 1 << 20);
            all.back() ^= 1;
            REQUIRE(write_file_atomic(path, all));
        } else {
            append_bytes(path, Bytes(21, 0x42));
        }
        auto ledger = sink::BatchLedger::open(dir.path, Uuid{});
        REQUIRE(ledger);
        CHECK(ledger->damaged_bytes() != 0);
        CHECK(ledger->is_stored(StartId{9}, Seq{10}));
        CHECK(ledger->open_plans().size() == (flip ? 0 : 1));
        std::size_t aside = 0;
        for (const auto& entry : std::filesystem::directory_iterator(dir.path + "/batches"))
            aside += entry.path().filename().string().starts_with("damaged-") ? 1 : 0;
        CHECK(aside == 1);
    }
}

TEST_CASE("I2 batch ids differ after the ledger was lost") {
    const kit::TempDir dir;
    const std::uint64_t before = *sink::BatchLedger::open(dir.path, Uuid{})->plan(range(1, 1));
    std::filesystem::remove_all(dir.path + "/batches");
    CHECK(*sink::BatchLedger::open(dir.path, Uuid{})->plan(range(1, 1)) != before);
}

TEST_CASE("the log is rewritten when it grows, and says the same") {
    const kit::TempDir dir;
    {
        auto ledger = sink::BatchLedger::open(dir.path, Uuid{});
        sink::LandingSets scattered;
        for (std::uint64_t i = 0; i < 3000; ++i) scattered[StartId{9}].insert(i * 3 + 1);
        for (int i = 0; i < 30; ++i) REQUIRE(ledger->done(*ledger->plan(scattered)));
        CHECK(std::filesystem::file_size(dir.path + "/batches/batches.log") < (1U << 20) + 60'000);
    }
    auto ledger = sink::BatchLedger::open(dir.path, Uuid{});
    CHECK(ledger->is_stored(StartId{9}, Seq{8998}));
    CHECK(!ledger->is_stored(StartId{9}, Seq{8999}));
}
