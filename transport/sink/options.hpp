// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Options of the sink; a leaf that config may include.

#include <cstdint>
#include <string>

namespace tally::sink {

enum class Kind : std::uint8_t { none, chdb, clickhouse, kafka };

struct Options {
    Kind kind = Kind::none;
    std::string dir;          // of the embedded store
    std::string landing_dir;  // where `batches/` lies and open plans are read from again
    std::string library;      // libchdb.so; empty: $TALLYMAN_CHDB, system library path, build/deps beside the binary

    std::int64_t cut_interval_ns = 1'000'000'000;   // a batch is cut this long after its first parcel...
    std::uint64_t cut_points = 16ULL << 20;         // ...or at this many points: larger batches merge cheaper
    std::uint64_t cut_bytes = 256ULL << 20;         // ...or at this many landed bytes, which bounds memory
    std::int64_t cut_spacing_ns = 250'000'000;      // at most four cuts a second, asked for or not
    std::uint64_t queue_bytes = 256ULL << 20;       // landed bytes that may wait for the next batch

    // Limits of connections that run a user's text.
    std::uint64_t query_memory_bytes = 2ULL << 30;
    std::uint64_t query_seconds = 300;
    std::uint64_t query_threads = 2;
    std::uint64_t query_rows = 50'000'000;
};

// What is wrong with the kind, as one sentence; empty when this build can do it.
std::string kind_problem(Kind kind);

}  // namespace tally::sink
