// SPDX-License-Identifier: Apache-2.0
//
// Appends to a spool until it is killed: child <dir> <seed>. Tells on standard output, each line in one write, what it
// was told: "S start", "D group" when durable, "A start lane seq" before it acknowledges.
#define DOCTEST_CONFIG_IMPLEMENT
#include <unistd.h>

#include <string>

#include "tests/unit/spool/model.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

namespace {

void tell(const std::string& line) {
    if (::write(1, line.data(), line.size()) < 0) ::_exit(3);
}

// Leaves every tenth unacknowledged until the spool is full: a segment is freed whole, so in the end they fill any budget.
class Acknowledger {
public:
    explicit Acknowledger(Spool& s, std::mt19937_64& rng) : spool_(s), rng_(rng) {}

    void some() {
        for (const ParcelId& id : fetch()) {
            if (rng_() % 10 == 0)
                left_.push_back(id);
            else
                ack(id);
        }
        if (!spool_.sweep()) ::_exit(5);
    }
    void all() {
        for (auto more = fetch(); !more.empty(); more = fetch()) left_.insert(left_.end(), more.begin(), more.end());
        for (const ParcelId& id : left_) ack(id);
        left_.clear();
        if (!spool_.sweep()) ::_exit(5);
    }

private:
    std::vector<ParcelId> fetch() {
        std::vector<ParcelId> out;
        for (const Lane lane : {Lane::live, Lane::bulk, Lane::file}) {
            const auto got = spool_.fetch(lane, 100000);
            if (!got) ::_exit(4);
            for (const Fetched& one : *got) out.push_back(one.id);
        }
        return out;
    }
    void ack(const ParcelId& id) {
        tell("A " + std::to_string(raw(id.start)) + " " + std::to_string(static_cast<int>(id.lane)) + " " +
             std::to_string(raw(id.seq)) + "\n");
        spool_.ack_received(id.start, id.lane, range(raw(id.seq), raw(id.seq)));
    }

    Spool& spool_;
    std::mt19937_64& rng_;
    std::vector<ParcelId> left_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    log_setup(LogLevel::error, false);
    const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
    std::mt19937_64 rng(seed ^ static_cast<std::uint64_t>(::getpid()));
    auto opened = Spool::open(small_options(argv[1]));
    if (!opened) return 6;
    Spool& s = **opened;
    tell("S " + std::to_string(raw(s.start())) + "\n");
    std::uint64_t told = 0;
    Acknowledger acknowledger(s, rng);
    int full = 0;
    for (std::uint64_t group = 1; group < 3000;) {
        std::mt19937_64 shape_rng(seed + group);
        const auto done = s.append(make_group(s, random_shape(shape_rng, group)));
        if (!done) return 7;
        if (*done == Append::ok) {
            ++group;
            full = 0;
        }
        if (!s.poll(monotonic_ns())) return 8;
        if (raw(s.durable_group()) != told) tell("D " + std::to_string(told = raw(s.durable_group())) + "\n");
        if (rng() % 8 == 0) acknowledger.some();
        if (*done != Append::full) continue;
        if (!s.drain()) return 8;
        acknowledger.all();
        if (++full == 10) return 9;  // all acknowledged, and still no room
    }
    return 0;
}
