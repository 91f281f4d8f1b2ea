// SPDX-License-Identifier: Apache-2.0
#include "spool/books.hpp"

#include <algorithm>

namespace tally::spool {

const Book* Books::find(std::uint64_t start, Lane lane) const {
    const auto it = books_.find({start, lane});
    return it == books_.end() ? nullptr : &it->second;
}

void Books::load(const LaneKey& key, const AckSets& sets) {
    Book& book = books_[key];
    book.acks = sets;
    book.settled.insert(keep_until_ == KeepUntil::stored ? sets.stored : sets.received);
}

bool Books::add(Book& book, IntervalSet& set, const IntervalSet& seqs, bool settles) {
    bool grew = false;
    for (const Interval& part : seqs.intervals()) {
        const std::uint64_t first = std::max<std::uint64_t>(part.first, 1);
        const std::uint64_t last = std::min(part.last, book.last);
        if (first > last) continue;
        grew = set.insert(first, last) || grew;
        if (settles) book.settled.insert(first, last);
    }
    return grew;
}

bool Books::received(const LaneKey& key, const IntervalSet& seqs) {
    const auto it = books_.find(key);
    if (it == books_.end()) return false;
    return add(it->second, it->second.acks.received, seqs, keep_until_ == KeepUntil::received);
}

// What is stored was received, whatever was heard of that.
bool Books::stored(const LaneKey& key, const IntervalSet& seqs) {
    const auto it = books_.find(key);
    if (it == books_.end()) return false;
    const bool more_received = add(it->second, it->second.acks.received, seqs, true);
    return add(it->second, it->second.acks.stored, seqs, true) || more_received;
}

AckTable Books::table() const {
    AckTable out;
    for (const auto& [key, book] : books_) {
        if (!book.acks.received.empty() || !book.acks.stored.empty()) out.emplace(key, book.acks);
    }
    return out;
}

}  // namespace tally::spool
