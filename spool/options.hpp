// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Options of a spool; a leaf that config may include.

#include <cstdint>
#include <string>

namespace tally::spool {

enum class Engine : std::uint8_t { automatic, io_uring, pwritev2 };
enum class KeepUntil : std::uint8_t { received, stored };  // when a record's space may be reused

struct Options {
    std::string dir;
    std::uint64_t budget_bytes = 64ULL << 30;         // all files together; full = backpressure into the rings
    std::uint64_t reserve_free_bytes = 1ULL << 30;    // never let the file system fall below this
    std::uint64_t segment_bytes_min = 1ULL << 20;     // first segment of a lane in a life
    std::uint64_t segment_bytes_max = 16ULL << 20;    // doubles up to this
    std::uint64_t cache_bytes = 64ULL << 20;          // recent payloads kept in memory for fetch()
    std::uint32_t groups_in_flight_max = 4;
    Engine engine = Engine::automatic;
    KeepUntil keep_until = KeepUntil::received;
    bool keep_acked = false;  // a landing without a sink keeps everything
};

}  // namespace tally::spool
