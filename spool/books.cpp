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
    for (IntervalSet* done : {&book.settled, &book.released}) {
        done->insert(keep_until_ == KeepUntil::stored ? sets.stored : sets.received);
        done->insert(sets.stored);
        done->insert(sets.lost);
    }
}

void Books::keep_until(KeepUntil level) {
    keep_until_ = level;
    if (level == KeepUntil::stored) return;  // what was let go stays so
    for (auto& [key, book] : books_) {
        book.settled.insert(book.acks.received);
        book.released.insert(book.acks.received);
    }
}

bool Books::add(Book& book, IntervalSet& set, const IntervalSet& seqs, bool settles) const {
    bool grew = false;
    for (const Interval& part : seqs.intervals()) {
        const std::uint64_t first = std::max<std::uint64_t>(part.first, 1);
        const std::uint64_t last = std::min(part.last, book.last);
        if (first > last) continue;
        grew = set.insert(first, last) || grew;
        if (!settles) continue;
        book.settled.insert(first, last);
        book.released.insert(first, last);
    }
    return grew;
}

bool Books::received(const LaneKey& key, const IntervalSet& seqs, const Uuid& receiver) {
    const auto it = books_.find(key);
    if (it == books_.end()) return false;
    AckSets& acks = it->second.acks;
    const bool first = acks.received.empty();
    const bool grew = add(it->second, acks.received, seqs, keep_until_ == KeepUntil::received);
    if (grew) acks.receiver = first || acks.receiver == receiver ? receiver : Uuid{};
    return grew;
}

// What is stored was received, whatever was heard of that.
bool Books::stored(const LaneKey& key, const IntervalSet& seqs) {
    const auto it = books_.find(key);
    if (it == books_.end()) return false;
    const bool more_received = add(it->second, it->second.acks.received, seqs, true);
    return add(it->second, it->second.acks.stored, seqs, true) || more_received;
}

bool Books::lost(const LaneKey& key, const IntervalSet& seqs) {
    const auto it = books_.find(key);
    return it != books_.end() && add(it->second, it->second.acks.lost, seqs, true);
}

AckTable Books::table(std::uint64_t start, std::uint64_t durable) const {
    AckTable out;
    for (const auto& [key, book] : books_) {
        AckSets sets = book.acks;
        if (key.first == start) {
            sets.durable_group = durable;
            sets.durable_seq = book.last;
        }
        if (sets.durable_group != 0 || !sets.received.empty() || !sets.stored.empty() || !sets.lost.empty())
            out.emplace(key, std::move(sets));
    }
    return out;
}

}  // namespace tally::spool
