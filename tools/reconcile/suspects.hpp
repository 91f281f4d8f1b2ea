// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Which point of a tile is wrong, from the tile's ledger entry and the points found: the hash is invertible, so one altered, doubled
//         or missing point is named together with the value that was logged.
// Flow    descent.cpp, landing_proof.cpp -> find_suspect.
// Limits  One wrong point. 64-bit values are named only for a single flipped bit; narrower ones for any other value (a chance hit among n
//         points is n / 2^(64 - bits)).

#include <optional>
#include <string>
#include <vector>

#include "agent/base/types.hpp"

namespace tally::reconcile {

struct FoundPoint {
    std::uint32_t env = 0;
    std::int64_t step = 0;
    std::uint64_t bits = 0;
};

struct Coordinates {
    std::uint32_t env = 0;
    std::int64_t step = 0;
    bool operator==(const Coordinates&) const = default;
};

struct Suspect {
    Coordinates at;
    std::string expected;  // bits in hex, or a sentence
    std::string found;
};

// The x with int_hash64(x) = h.
std::uint64_t int_hash64_inverse(std::uint64_t h);

// `missing`: coordinates that were logged and are not there, when they are known.
std::optional<Suspect> find_suspect(const std::vector<FoundPoint>& found, const std::vector<Coordinates>& missing, std::uint64_t seed,
                                    Dtype dtype, std::uint64_t points_expected, std::uint64_t hash_expected);

}  // namespace tally::reconcile
