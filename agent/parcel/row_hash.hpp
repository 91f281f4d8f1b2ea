// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The hash of one row of the live lane. CLOSE carries their sums, so the store's rows are proven by value as points are.
// Format  agent/parcel/FORMAT.md, "Row hashes". SQL of the same numbers: tools/reconcile/row_proof.cpp.
// Threads Pure functions; any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/parcel/sections.hpp"

namespace tally::parcel {

inline constexpr std::size_t row_hash_fields_max = 12;

// Field i of a row is multiplied by factor i + 1: the powers of an odd number, so no change of one field goes unseen.
constexpr std::array<std::uint64_t, row_hash_fields_max> row_hash_factors() {
    std::array<std::uint64_t, row_hash_fields_max> out{};
    std::uint64_t power = 1;
    for (std::uint64_t& f : out) f = power *= 0xD6E8FEB86659FD93ULL;
    return out;
}

// XXH3-64 of "run|producer|attempt|kind": kind = episodes, events. Rows of statistics take the seed of their series family.
std::uint64_t row_seed(const Origin& origin, std::string_view kind);

std::uint64_t row_hash(std::uint64_t seed, const EpisodeHeader& row);
std::uint64_t row_hash(std::uint64_t seed, const StepStats& row);
std::uint64_t row_hash(std::uint64_t seed, const Event& row);

}  // namespace tally::parcel
