// SPDX-License-Identifier: Apache-2.0
//
// Random operations on a ring of the smallest size, in lockstep with a model that is a deque of what was committed.

#include <deque>
#include <random>

#include "tests/unit/ring/fixture.hpp"

using namespace tally;
using namespace tally::ring;
using namespace tally::ring::test;

namespace {

struct Expected {
    std::int64_t step;
    std::vector<ScalarValue> values;
    std::uint64_t end;
};

class Lockstep {
public:
    explicit Lockstep(std::uint64_t seed) : rng_(seed), mapping_(ring_.map()) {
        for (std::uint32_t i = 0; i < 4; ++i) put_series(ring_.producer, i, Dtype::u64, "s" + std::to_string(i));
        consumer_.emplace(*Consumer::open(mapping_, 0, 0, 0));
    }

    void step() {
        switch (rng_() % 8) {
            case 0: case 1: case 2: return write();
            case 3: case 4: return read();
            case 5: return free();
            case 6: return abort();
            default: return restart();
        }
    }
    std::uint64_t records() const { return ring_.producer.records(); }

private:
    std::uint64_t used() const { return ring_.producer.head() - tail_; }

    void write() {
        std::vector<ScalarValue> values(rng_() % 600);
        for (auto& v : values) v = {static_cast<std::uint32_t>(rng_() % 4), 0, rng_()};
        const std::uint64_t bytes = 48 + 16 + values.size() * 16;
        const bool fits = used() + bytes <= data_bytes_min;
        const auto step_no = static_cast<std::int64_t>(rng_());
        const bool wrote = ring_.log(step_no, values);
        CHECK(wrote == fits);
        if (wrote) unread_.push_back({step_no, std::move(values), ring_.producer.head()});
    }
    void read() {
        const auto record = consumer_->next(scratch_);
        REQUIRE(record.has_value());
        REQUIRE(record->has_value() == !unread_.empty());
        if (unread_.empty()) return;
        const Expected& e = unread_.front();
        ScalarBody body;
        std::memcpy(&body, (*record)->body.data(), sizeof(body));
        CHECK(body.step == e.step);
        REQUIRE(body.count == e.values.size());
        CHECK((e.values.empty() || std::memcmp((*record)->body.data() + sizeof(body), e.values.data(),
                                               e.values.size() * sizeof(ScalarValue)) == 0));
        CHECK((*record)->end == e.end);
        uncommitted_.push_back(unread_.front());
        unread_.pop_front();
    }
    void free() {
        if (uncommitted_.empty()) return;
        const std::size_t n = 1 + rng_() % uncommitted_.size();
        tail_ = uncommitted_[n - 1].end;
        for (std::size_t i = 0; i < n; ++i) points_ += uncommitted_[i].values.size();
        number_ += n;
        uncommitted_.erase(uncommitted_.begin(), uncommitted_.begin() + static_cast<std::ptrdiff_t>(n));
        consumer_->set_tail(tail_);
    }
    void abort() {
        if (ring_.producer.claim(rng_() % 1000) != nullptr) ring_.producer.abort();
    }
    // The agent dies and comes back with the cursor of its last commit.
    void restart() {
        auto again = Consumer::open(mapping_, tail_, number_, points_);
        REQUIRE(again.has_value());
        consumer_.emplace(std::move(*again));
        unread_.insert(unread_.begin(), uncommitted_.begin(), uncommitted_.end());
        uncommitted_.clear();
    }

    std::mt19937_64 rng_;
    Ring ring_;
    Mapping mapping_;
    std::optional<Consumer> consumer_;
    Bytes scratch_;
    std::deque<Expected> unread_;
    std::deque<Expected> uncommitted_;
    std::uint64_t tail_ = 0;
    std::uint64_t number_ = 0;
    std::uint64_t points_ = 0;
};

}  // namespace

TEST_CASE("a ring behaves as a queue of records through writes, reads, commits, aborts and agent restarts") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        Lockstep lockstep(seed);
        for (int i = 0; i < 2000; ++i) lockstep.step();
        CHECK(lockstep.records() > 100);
    }
}
