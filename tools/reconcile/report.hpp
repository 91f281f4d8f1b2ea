// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What a reconciliation found, layer by layer, and the verdict that follows from it.
// Flow    store_proof, landing_proof -> Report -> JSON or text, exit code.
// Limits  first_max named findings; everything else is counted.

#include <cstdint>
#include <string>
#include <vector>

namespace tally::tools::reconcile {

inline constexpr std::size_t first_max = 16;

struct Finding {
    std::string layer;   // transport, headers, stats, series, values, gaps
    std::string metric;
    std::string env;     // number, or a range a..b
    std::string step;
    std::string expected;
    std::string found;
};

struct Pair {
    std::uint64_t logged = 0;
    std::uint64_t stored = 0;
};
struct Counted {
    std::uint64_t count = 0;
    std::uint64_t mismatched = 0;
};

struct Report {
    std::string run;
    std::string at = "store";
    std::string error;  // the proof could not be made: why
    std::uint64_t checked = 0;     // points whose counts and hashes agree
    std::uint64_t mismatched = 0;  // tiles, series or layers that cannot be explained by data still on its way
    std::uint64_t unsettled = 0;   // differences that data still on its way explains
    std::uint64_t producers = 0;
    std::uint64_t open_producers = 0;
    std::uint64_t missing_producers = 0;
    std::uint64_t physical_duplicates = 0;
    std::uint64_t undeclared_lost = 0;  // points of closed producers that are nowhere and in no gap
    Pair points;
    std::uint64_t declared_lost = 0;
    std::uint64_t gap_rows = 0;
    Pair headers;
    Pair stats;
    Pair events;
    Counted series;
    Counted tiles;
    std::uint64_t transport_missing = 0;  // sequences between the first and the newest that nothing declares
    std::vector<Finding> first;

    void add(Finding finding) {
        if (first.size() < first_max) first.push_back(std::move(finding));
    }
    // mismatch beats loss beats pending.
    const char* verdict() const;
    int exit_code() const;  // 0 exact, 3 pending, 4 loss or mismatch, 1 no proof
    std::string json() const;
    std::string text() const;
};

}  // namespace tally::tools::reconcile
