// SPDX-License-Identifier: Apache-2.0
#include "agent/parcel/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace tally::parcel {

namespace {

struct Lead {
    std::size_t bytes;  // 0: no sequence begins like this
    std::uint8_t lo;    // bounds of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF
    std::uint8_t hi;
};

Lead lead_of(std::uint8_t b) {
    if (b < 0x80) return {1, 0, 0};
    if (b >= 0xC2 && b <= 0xDF) return {2, 0x80, 0xBF};
    if (b >= 0xE0 && b <= 0xEF)
        return {3, static_cast<std::uint8_t>(b == 0xE0 ? 0xA0 : 0x80), static_cast<std::uint8_t>(b == 0xED ? 0x9F : 0xBF)};
    if (b >= 0xF0 && b <= 0xF4)
        return {4, static_cast<std::uint8_t>(b == 0xF0 ? 0x90 : 0x80), static_cast<std::uint8_t>(b == 0xF4 ? 0x8F : 0xBF)};
    return {0, 0, 0};
}

std::uint8_t byte_at(std::string_view s, std::size_t i) { return static_cast<std::uint8_t>(s[i]); }

// Bytes of the well-formed sequence at s[i], 0 if there is none.
std::size_t sequence_at(std::string_view s, std::size_t i) {
    const Lead lead = lead_of(byte_at(s, i));
    if (lead.bytes <= 1) return lead.bytes;
    if (s.size() - i < lead.bytes) return 0;
    if (byte_at(s, i + 1) < lead.lo || byte_at(s, i + 1) > lead.hi) return 0;
    for (std::size_t k = 2; k < lead.bytes; ++k)
        if ((byte_at(s, i + k) & 0xC0) != 0x80) return 0;
    return lead.bytes;
}

// Length of the leading run of plain ASCII, eight bytes at a time.
std::size_t ascii_run(std::string_view s) {
    std::size_t i = 0;
    for (; i + 8 <= s.size(); i += 8) {
        std::uint64_t word;
        std::memcpy(&word, s.data() + i, 8);
        if ((word & 0x8080808080808080ULL) != 0) break;
    }
    return i;
}

std::size_t valid_prefix(std::string_view s, std::size_t from) {
    for (std::size_t i = from; i < s.size();) {
        const std::size_t n = sequence_at(s, i);
        if (n == 0) return i;
        i += n;
    }
    return s.size();
}

}  // namespace

bool utf8_valid(std::string_view text) noexcept { return valid_prefix(text, ascii_run(text)) == text.size(); }

std::string utf8_repaired(std::string_view text) {
    std::string out;
    for (std::size_t at = 0;;) {
        const std::size_t end = valid_prefix(text, at);
        out.append(text.substr(at, end - at));
        if (end == text.size()) return out;
        out.append("\xEF\xBF\xBD");
        at = end + 1;
    }
}

}  // namespace tally::parcel
