// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Hands out committed records in chain order, from the cache or from disk.
// Threads role: disk.
// Invariants: I2 of spool.hpp.
// Limits  One segment's index per lane in memory, besides those being written.

#include "spool/store.hpp"

namespace tally::spool {

class Fetcher {
public:
    explicit Fetcher(Store& store) : store_(store) {}
    Result<std::vector<Fetched>> fetch(Lane lane, std::uint64_t bytes_max);

private:
    // Takes from one segment until `bytes_max`; true when there is nothing left in it for now.
    bool take(Segment& segment, std::uint64_t bytes_max, std::uint64_t& bytes, std::vector<Fetched>& out);
    Payload load(Segment& segment, const RecordRef& record);

    Store& store_;
    Fd open_[lane_count];
    std::uint64_t open_number_[lane_count] = {};
};

}  // namespace tally::spool
