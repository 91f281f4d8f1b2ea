// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What is known per start and lane: acknowledged, parked, lost, already handed out.
// Threads role: disk.
// Invariants
//   B1 acknowledgements count only for committed sequences of starts this spool has: a receiver that claims more,
//      wrongly or because the spool was restored, cannot make later records vanish.

#include <map>

#include "spool/ack_file.hpp"
#include "spool/options.hpp"

namespace tally::spool {

struct Book {
    std::uint64_t last = 0;  // newest committed sequence
    AckSets acks;
    IntervalSet settled;   // needs no fetching any more: acknowledged as keep_until wants, parked, or lost
    IntervalSet released;  // may be deleted: acknowledged as keep_until wants, or its loss is declared
    IntervalSet fetched;  // handed out by this life
    IntervalSet seen;     // a valid copy was met
};

class Books {
public:
    explicit Books(KeepUntil keep_until) : keep_until_(keep_until) {}

    KeepUntil keep_until() const { return keep_until_; }
    void keep_until(KeepUntil level);
    Book& of(std::uint64_t start, Lane lane) { return books_[{start, lane}]; }
    const Book* find(std::uint64_t start, Lane lane) const;
    const std::map<LaneKey, Book>& all() const { return books_; }

    void load(const LaneKey& key, const AckSets& sets);
    // False when nothing new was in it.
    bool received(const LaneKey& key, const IntervalSet& seqs, const Uuid& receiver);
    bool stored(const LaneKey& key, const IntervalSet& seqs);
    // Its gap is durable.
    bool lost(const LaneKey& key, const IntervalSet& seqs);
    void settle(const LaneKey& key, std::uint64_t first, std::uint64_t last) { books_[key].settled.insert(first, last); }
    void forget(const LaneKey& key) { books_.erase(key); }
    // `start` is this life, and `durable` its durable group. Entries of starts without an acknowledgement are in it too,
    // as far as they say what is durable.
    AckTable table(std::uint64_t start, std::uint64_t durable) const;

private:
    bool add(Book& book, IntervalSet& set, const IntervalSet& seqs, bool settles) const;

    KeepUntil keep_until_;
    std::map<LaneKey, Book> books_;
};

}  // namespace tally::spool
