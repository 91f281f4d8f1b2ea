// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Options of intake; a leaf that config may include.

#include <cstdint>

namespace tally::intake {

struct Options {
    // Encoded bytes after which a parcel is closed. Larger compresses no better and blocks a session longer.
    std::uint64_t parcel_bytes_target = 512ULL << 10;
    // Encoded bytes after which a batch is cut at once, whatever its age: bounds memory before the spool.
    std::uint64_t batch_bytes_max = 4ULL << 20;
    // Age at which a batch is cut. Shorter = durable sooner, more and smaller parcels.
    std::int64_t batch_interval_ns = 20'000'000;
    // How often an open producer says that it lives.
    std::int64_t heartbeat_interval_ns = 60'000'000'000;
    // Histograms in the step statistics of blocks with more than one environment; about 1 ns a point.
    bool histogram = true;
};

}  // namespace tally::intake
