// SPDX-License-Identifier: Apache-2.0
//
// Random append, poll, fetch, ack, sweep, reopen with small limits and failing writes, in lockstep with a model.
#include <cerrno>

#include "tests/unit/spool/model.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

namespace {

class Lockstep {
public:
    explicit Lockstep(std::uint64_t seed) : rng_(seed), options_(small_options(dir_.path())) {
        model_.in_order = false;
        options_.segment_bytes_max = 64U << 10;
        options_.budget_bytes = 1U << 20;
        options_.cache_bytes = rng_() % 2 == 0 ? 0 : 30000;
        options_.groups_in_flight_max = 1 + static_cast<std::uint32_t>(rng_() % 4);
        options_.engine = rng_() % 2 == 0 ? Engine::automatic : Engine::pwritev2;
    }
    void run(int steps) {
        reopen();
        for (int i = 0; i < steps; ++i) step();
        finish();
    }

private:
    void reopen() {
        std::vector<Fault> faults;
        for (int i = 0; i < 3; ++i)
            faults.push_back({.at = 1 + rng_() % 60, .error = rng_() % 2 == 0 ? EIO : 0, .short_by = 4096});
        spool_ = must_open(options_, faulty(faults, seeded_seams(rng_)));
        model_.begin_life(*spool_);
        handed_.clear();
        CHECK((spool_->cursors() == model_.lives.back().cursors_before));
    }
    void step() {
        switch (rng_() % 12) {
            case 0:
            case 1:
            case 2:
            case 3:
                return append();
            case 4:
            case 5:
                REQUIRE(spool_->poll(monotonic_ns()).has_value());
                return;
            case 6:
            case 7:
                return fetch();
            case 8:
                return ack();
            case 9:
                return sweep();
            case 10:
                drain();
                return;
            default:
                if (rng_() % 6 == 0) restart();
        }
    }
    void append() {
        const Group group = make_group(*spool_, random_shape(rng_, raw(spool_->plan().group)));
        const auto done = spool_->append(group);
        REQUIRE(done.has_value());
        if (*done == Append::ok) model_.appended(group);
        CHECK(spool_->stats().bytes_on_disk <= options_.budget_bytes);
    }
    void fetch() {
        const Lane lane = static_cast<Lane>(rng_() % 3);
        const auto got = spool_->fetch(lane, 1 + rng_() % 40000);
        REQUIRE(got.has_value());
        const auto durable = model_.committed(raw(spool_->durable_group()));
        for (const Fetched& one : *got) {
            CHECK(payload_right(one.id, one.payload));
            CHECK(durable.contains(one.id));
            CHECK(!model_.acked.contains(one.id));
            CHECK(handed_.insert(one.id).second);
            sent_.push_back(one.id);
        }
    }
    void ack() {
        std::shuffle(sent_.begin(), sent_.end(), rng_);
        for (std::uint64_t n = rng_() % 12; n > 0 && !sent_.empty(); --n) {
            model_.ack(*spool_, sent_.back());
            sent_.pop_back();
        }
    }
    void sweep() {
        REQUIRE(spool_->sweep().has_value());
        model_.swept();
        CHECK(dir_bytes(options_.dir) <= options_.budget_bytes + 64);  // lock and spool.id are not counted
        CHECK((spool_->cursors() == model_.cursors_at(raw(spool_->durable_group()))));
    }
    // With the budget used up a failed segment cannot be rewritten before acknowledgements free space.
    void drain() {
        auto done = spool_->drain();
        if (!done && done.error().code == Code::full) {
            for (const Lane lane : {Lane::live, Lane::bulk, Lane::file}) {
                for (const Fetched& one : fetch_all(*spool_, lane)) sent_.push_back(one.id);
            }
            for (const ParcelId& id : sent_) model_.ack(*spool_, id);
            sent_.clear();
            sweep();
            done = spool_->drain();
        }
        REQUIRE_MESSAGE(done.has_value(), done.error().text());
    }
    void restart() {
        drain();
        REQUIRE(spool_->sweep().has_value());
        model_.swept();
        spool_.reset();
        sent_.clear();
        reopen();
    }
    void finish() {
        restart();
        auto& lives = model_.lives;
        lives.pop_back();  // the life just begun has nothing
        CHECK(model_.check(*spool_, lives.back().groups.size()) == lives.back().groups.size());
        const auto summary = scan(options_.dir, [](const ScannedRecord&) { return true; });
        REQUIRE(summary.has_value());
        CHECK(summary->damage.empty());
    }

    TempDir dir_;
    std::mt19937_64 rng_;
    Options options_;
    Model model_;
    std::unique_ptr<Spool> spool_;
    std::set<ParcelId> handed_;
    std::vector<ParcelId> sent_;
};

}  // namespace

TEST_SUITE("spool model") {
    TEST_CASE("random operations agree with the model") {
        for (const std::uint64_t seed : seeds(60)) {
            CAPTURE(seed);
            Lockstep(seed).run(300);
        }
    }
}
