// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Sizes, durations and rates as people write them in configuration and on command lines.

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace tally {

// "512", "64KiB", "1MiB", "2GiB", "1TiB" (binary) or "64kB", "1MB", "2GB" (decimal) -> bytes
Result<std::uint64_t> parse_bytes(std::string_view text);
// "250us", "50ms", "10s", "5min", "2h" -> nanoseconds; a bare number is refused
Result<std::int64_t> parse_duration_ns(std::string_view text);
// "20Mbit/s", "1Gbit/s", "5MB/s", "5MiB/s" -> bytes per second
Result<std::uint64_t> parse_rate_bytes(std::string_view text);

std::string format_bytes(std::uint64_t bytes);  // "1.5 GiB"
std::string format_count(double value);         // "64.0 M"

}  // namespace tally
