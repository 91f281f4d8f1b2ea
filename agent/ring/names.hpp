// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The name rules of agent/base/types.hpp without libstdc++, so that the client refuses what the agent would.
//         tests/unit/ring compares both on random names.

#include <cstddef>
#include <cstdint>

namespace tally::ring {

inline constexpr std::size_t run_id_bytes_max = 128;
inline constexpr std::size_t name_bytes_max = 256;          // metric names, project, run name, role, host
inline constexpr std::size_t labels_bytes_max = 16 * 1024;  // JSON object text

inline bool run_id_ok(const char* s, std::size_t n) {
    if (n == 0 || n > run_id_bytes_max) return false;
    for (std::size_t i = 0; i < n; ++i) {
        const char c = s[i];
        const bool word = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!word && c != '_' && c != '.' && c != '-') return false;
    }
    return true;
}

// Bytes of the UTF-8 sequence at s, 0 when there is none.
inline std::size_t utf8_sequence(const unsigned char* s, std::size_t left) {
    const unsigned lead = s[0];
    if (lead < 0x80) return 1;
    std::size_t n = 0;
    unsigned lo = 0x80;
    unsigned hi = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
        n = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        n = 3;
        if (lead == 0xE0) lo = 0xA0;
        if (lead == 0xED) hi = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        n = 4;
        if (lead == 0xF0) lo = 0x90;
        if (lead == 0xF4) hi = 0x8F;
    }
    if (n == 0 || left < n || s[1] < lo || s[1] > hi) return 0;
    for (std::size_t i = 2; i < n; ++i)
        if (s[i] < 0x80 || s[i] > 0xBF) return 0;
    return n;
}

inline bool utf8_ok(const char* s, std::size_t n, bool allow_control) {
    const auto* u = reinterpret_cast<const unsigned char*>(s);
    for (std::size_t i = 0; i < n;) {
        if (!allow_control && (u[i] < 0x20 || u[i] == 0x7F)) return false;
        const std::size_t len = utf8_sequence(u + i, n - i);
        if (len == 0) return false;
        i += len;
    }
    return true;
}

inline bool name_ok(const char* s, std::size_t n) { return n >= 1 && n <= name_bytes_max && utf8_ok(s, n, false); }
// As a name, and may be empty.
inline bool label_ok(const char* s, std::size_t n) { return n == 0 || name_ok(s, n); }

}  // namespace tally::ring
