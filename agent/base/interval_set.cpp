// SPDX-License-Identifier: Apache-2.0
#include "agent/base/interval_set.hpp"

#include <algorithm>

namespace tally {

bool IntervalSet::insert(std::uint64_t first, std::uint64_t last) {
    TALLY_ASSERT(first <= last);
    // Everything that overlaps or touches [first, last] melts into one interval.
    auto from = std::lower_bound(intervals_.begin(), intervals_.end(), first,
                                 [](const Interval& i, std::uint64_t v) { return v > 0 && i.last < v - 1; });
    auto to = from;
    if (from != intervals_.end() && from->first <= first && from->last >= last) return false;
    Interval merged{first, last};
    while (to != intervals_.end() && (last == UINT64_MAX || to->first <= last + 1)) {
        merged.first = std::min(merged.first, to->first);
        merged.last = std::max(merged.last, to->last);
        ++to;
    }
    if (from == to) {
        intervals_.insert(from, merged);
    } else {
        *from = merged;
        intervals_.erase(from + 1, to);
    }
    return true;
}

void IntervalSet::insert(const IntervalSet& other) {
    for (const Interval& i : other.intervals_) insert(i.first, i.last);
}

void IntervalSet::erase(std::uint64_t first, std::uint64_t last) {
    TALLY_ASSERT(first <= last);
    std::vector<Interval> kept;
    kept.reserve(intervals_.size() + 1);
    for (const Interval& i : intervals_) {
        if (i.last < first || i.first > last) {
            kept.push_back(i);
            continue;
        }
        if (i.first < first) kept.push_back({i.first, first - 1});
        if (i.last > last) kept.push_back({last + 1, i.last});
    }
    intervals_ = std::move(kept);
}

bool IntervalSet::contains(std::uint64_t value) const {
    auto it = std::upper_bound(intervals_.begin(), intervals_.end(), value,
                               [](std::uint64_t v, const Interval& i) { return v < i.first; });
    return it != intervals_.begin() && std::prev(it)->last >= value;
}

std::uint64_t IntervalSet::contiguous_from(std::uint64_t first) const {
    auto it = std::upper_bound(intervals_.begin(), intervals_.end(), first,
                               [](std::uint64_t v, const Interval& i) { return v < i.first; });
    if (it == intervals_.begin() || std::prev(it)->last < first) return first - 1;
    return std::prev(it)->last;
}

std::uint64_t IntervalSet::count() const {
    std::uint64_t n = 0;
    for (const Interval& i : intervals_) n += i.last - i.first + 1;
    return n;
}

std::vector<Interval> IntervalSet::missing(std::uint64_t first, std::uint64_t last) const {
    std::vector<Interval> out;
    std::uint64_t next = first;
    for (const Interval& i : intervals_) {
        if (i.last < next) continue;
        if (i.first > last) break;
        if (i.first > next) out.push_back({next, i.first - 1});
        if (i.last >= last) return out;
        next = i.last + 1;
    }
    if (next <= last) out.push_back({next, last});
    return out;
}

void IntervalSet::write(ByteWriter& out) const {
    out.put(static_cast<std::uint32_t>(intervals_.size()));
    for (const Interval& i : intervals_) {
        out.put(i.first);
        out.put(i.last);
    }
}

Result<IntervalSet> IntervalSet::read(ByteReader& in) {
    const auto count = in.get<std::uint32_t>();
    if (!in.ok() || count > intervals_max || in.left() / 16 < count) return fail(Code::truncated, "interval set", count);
    IntervalSet set;
    set.intervals_.reserve(count);
    for (std::uint32_t k = 0; k < count; ++k) {
        const Interval i{in.get<std::uint64_t>(), in.get<std::uint64_t>()};
        const bool touches = !set.intervals_.empty() && i.first <= set.intervals_.back().last + 1;
        if (i.first > i.last || touches || (k > 0 && set.intervals_.back().last == UINT64_MAX))
            return fail(Code::corrupt, "interval set is not sorted and disjoint", k);
        set.intervals_.push_back(i);
    }
    return set;
}

}  // namespace tally
