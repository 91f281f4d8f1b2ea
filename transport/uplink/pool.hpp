// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The parcels the uplink holds: waiting, or in flight on some session, until acknowledged.
// Threads role: net.
// Invariants
//   I1  held_bytes() is the sum over both; a parcel is in one of the two.

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "transport/uplink/uplink.hpp"

namespace tally::uplink {

class Pool {
public:
    explicit Pool(std::uint64_t window_bytes) : window_bytes_(window_bytes) {}

    bool has_room() const { return held_bytes_ < window_bytes_; }
    void add(Outbound parcel);
    bool waiting() const { return !waiting_.empty(); }
    // Oldest waiting parcel; it counts as in flight from now on.
    Outbound take();
    // A session died or said NACK: back to the front.
    void give_back(const ParcelId& id);
    // Acknowledged; returns how many and how many bytes were held.
    struct Landed {
        std::uint64_t parcels = 0;
        std::uint64_t bytes = 0;
    };
    Landed landed(StartId start, Lane lane, const IntervalSet& seqs);
    std::optional<Outbound> remove(const ParcelId& id);

    std::uint64_t held_bytes() const { return held_bytes_; }
    std::set<std::pair<StartId, Lane>> lanes() const;

private:
    std::map<ParcelId, spool::Payload> held_;
    std::deque<ParcelId> waiting_;
    std::uint64_t held_bytes_ = 0;
    std::uint64_t window_bytes_;
};

}  // namespace tally::uplink
