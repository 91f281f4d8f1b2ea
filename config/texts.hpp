// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Values as people write them in TOML, and how far two words are apart.

#include <cstdint>
#include <string>
#include <string_view>

namespace tally::config {

std::string in_quotes(std::string_view text);
std::string bytes_text(std::uint64_t bytes);       // "64MiB": the largest unit that divides it
std::string rate_text(std::uint64_t bytes_per_s);  // "20Mbit/s"
std::string duration_text(std::int64_t ns);        // "50ms"
// scheme://user:password@host becomes scheme://***@host.
std::string without_password(std::string_view text);
// Edits that turn one word into the other (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b);

}  // namespace tally::config
