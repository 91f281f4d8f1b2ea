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

void acknowledge(Spool& s, std::mt19937_64& rng) {
    for (const Lane lane : {Lane::live, Lane::bulk, Lane::file}) {
        const auto got = s.fetch(lane, 100000);
        if (!got) ::_exit(4);
        for (const Fetched& one : *got) {
            if (rng() % 10 == 0) continue;
            tell("A " + std::to_string(raw(one.id.start)) + " " + std::to_string(static_cast<int>(lane)) +
                 " " + std::to_string(raw(one.id.seq)) + "\n");
            s.ack_received(one.id.start, lane, range(raw(one.id.seq), raw(one.id.seq)));
        }
    }
    if (!s.sweep()) ::_exit(5);
}

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
    for (std::uint64_t group = 1; group < 3000;) {
        std::mt19937_64 shape_rng(seed + group);
        const auto done = s.append(make_group(s, random_shape(shape_rng, group)));
        if (!done) return 7;
        if (*done == Append::ok) ++group;
        if (!s.poll(monotonic_ns())) return 8;
        if (raw(s.durable_group()) != told) tell("D " + std::to_string(told = raw(s.durable_group())) + "\n");
        if (rng() % 8 == 0) acknowledge(s, rng);
    }
    return 0;
}
