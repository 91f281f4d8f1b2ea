// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Log lines as data: an event name, then key=value. Backend is spdlog, kept out of this header.
// Threads Any.
// Limits  One event name is written at most 10 times in 10 s per process; the next line that passes says
//         suppressed=N. Values are quoted and control characters escaped. Secrets are never passed in here.
//
//   log_info("spool.open", {{"dir", dir}, {"bytes", bytes}});

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "agent/base/result.hpp"

namespace tally {

enum class LogLevel : std::uint8_t { debug, info, warn, error };

struct LogField {
    std::string_view key;
    std::string value;

    LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
    LogField(std::string_view k, const char* v) : key(k), value(v) {}
    LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
    LogField(std::string_view k, const Error& e) : key(k), value(e.text()) {}
    template <class T>
        requires std::is_arithmetic_v<T>
    LogField(std::string_view k, T v) : key(k), value(std::to_string(v)) {}
};

// To stderr; journald adds time when `with_time` is false.
void log_setup(LogLevel level, bool with_time);
void log_set_level(LogLevel level);
void log_write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);

inline void log_debug(std::string_view e, std::initializer_list<LogField> f = {}) { log_write(LogLevel::debug, e, f); }
inline void log_info(std::string_view e, std::initializer_list<LogField> f = {}) { log_write(LogLevel::info, e, f); }
inline void log_warn(std::string_view e, std::initializer_list<LogField> f = {}) { log_write(LogLevel::warn, e, f); }
inline void log_error(std::string_view e, std::initializer_list<LogField> f = {}) { log_write(LogLevel::error, e, f); }

}  // namespace tally
