// SPDX-License-Identifier: Apache-2.0
#include "config/texts.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace tally::config {

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t u = 0;
    while (bytes != 0 && bytes % 1024 == 0 && u + 1 < std::size(units)) {
        bytes /= 1024;
        ++u;
    }
    return std::to_string(bytes) + units[u];
}

std::string rate_text(std::uint64_t bytes_per_s) {
    struct Step {
        std::uint64_t bytes;
        const char* unit;
    };
    constexpr Step steps[] = {{125'000'000, "Gbit/s"}, {125'000, "Mbit/s"}, {125, "kbit/s"}};
    for (const Step& s : steps)
        if (bytes_per_s != 0 && bytes_per_s % s.bytes == 0) return std::to_string(bytes_per_s / s.bytes) + s.unit;
    return std::to_string(bytes_per_s) + "B/s";
}

std::string duration_text(std::int64_t ns) {
    struct Step {
        std::int64_t factor;
        const char* unit;
    };
    constexpr Step steps[] = {{3'600'000'000'000, "h"}, {60'000'000'000, "min"}, {1'000'000'000, "s"},
                              {1'000'000, "ms"},        {1'000, "us"}};
    for (const Step& s : steps)
        if (ns != 0 && ns % s.factor == 0) return std::to_string(ns / s.factor) + s.unit;
    return std::to_string(ns) + "ns";
}

std::string without_password(std::string_view text) {
    const auto scheme = text.find("://");
    if (scheme == std::string_view::npos) return std::string(text);
    const auto slash = text.find('/', scheme + 3);
    const auto at = text.substr(0, slash).rfind('@');
    if (at == std::string_view::npos || at < scheme) return std::string(text);
    return std::string(text.substr(0, scheme + 3)) + "***" + std::string(text.substr(at));
}

std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
            diagonal = above;
        }
    }
    return row[b.size()];
}

}  // namespace tally::config
