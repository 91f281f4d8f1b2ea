// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A set of u64 as sorted, disjoint, non-adjacent closed intervals: what is acknowledged, received, stored.
// Format  u32 count, then count x (u64 first, u64 last), little-endian; used in ack files, wire messages and
//         landing cursors.
// Limits  intervals_max on reading, so that hostile counts reserve nothing.

#include <cstdint>
#include <optional>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/base/result.hpp"

namespace tally {

struct Interval {
    std::uint64_t first = 0;
    std::uint64_t last = 0;  // inclusive
    bool operator==(const Interval&) const = default;
};

class IntervalSet {
public:
    static constexpr std::uint32_t intervals_max = 1U << 20;

    // False when every value was already inside.
    bool insert(std::uint64_t first, std::uint64_t last);
    bool insert(std::uint64_t value) { return insert(value, value); }
    void insert(const IntervalSet& other);
    void erase(std::uint64_t first, std::uint64_t last);
    bool contains(std::uint64_t value) const;
    // Highest v such that [first, v] is all inside; first - 1 when `first` is not.
    std::uint64_t contiguous_from(std::uint64_t first) const;
    std::uint64_t count() const;
    // The parts of [first, last] that are not inside.
    std::vector<Interval> missing(std::uint64_t first, std::uint64_t last) const;

    bool empty() const { return intervals_.empty(); }
    const std::vector<Interval>& intervals() const { return intervals_; }
    bool operator==(const IntervalSet&) const = default;

    void write(ByteWriter& out) const;
    static Result<IntervalSet> read(ByteReader& in);

private:
    std::vector<Interval> intervals_;
};

}  // namespace tally
