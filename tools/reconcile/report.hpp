// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The verdict of a reconciliation, its layers and its first findings.

#include <cstdint>
#include <string>
#include <vector>

namespace tally::reconcile {

struct Pair {
    std::uint64_t logged = 0;
    std::uint64_t stored = 0;
};
struct Checked {
    std::uint64_t count = 0;
    std::uint64_t mismatched = 0;
};
struct Finding {
    std::string layer;
    std::string metric;
    std::int64_t env = -1;
    std::int64_t step = 0;
    std::string expected;
    std::string found;
};

struct Report {
    std::string run;
    std::string verdict;  // exact, pending, loss, mismatch
    std::string why;      // one sentence where the verdict is not exact
    std::uint64_t checked = 0;     // points compared by value
    std::uint64_t mismatched = 0;  // groups of points that differ
    std::uint64_t unsettled = 0;   // differences that data still on its way explains
    std::uint64_t not_stored = 0;  // parcels that were received and that the store had not taken when asked
    std::uint64_t undeclared_lost = 0;  // points that were logged, are nowhere, and cannot be on their way
    std::uint64_t gap_rows = 0;         // declared losses
    std::uint64_t producers = 0;
    std::uint64_t open_producers = 0;
    std::uint64_t missing_producers = 0;
    std::uint64_t physical_duplicates = 0;
    std::uint64_t points_logged = 0;
    std::uint64_t points_stored = 0;
    std::uint64_t points_declared_lost = 0;
    Pair headers;
    Pair stats;
    Pair events;
    Checked series;
    Checked tiles;
    Checked transport;  // parcels seen; holes in their sequences
    double seconds = 0;
    std::vector<Finding> first;

    static constexpr std::size_t first_max = 16;
    void add(Finding finding) {
        if (first.size() < first_max) first.push_back(std::move(finding));
    }
    int exit_code() const;
    std::string json() const;
    std::string text() const;
};

// Verdict from the counts: mismatch before loss before pending before exact. `settled`: nothing more is on its way.
void judge(Report& report, bool settled);

}  // namespace tally::reconcile
