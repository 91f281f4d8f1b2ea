// SPDX-License-Identifier: Apache-2.0
#include "agent/base/log.hpp"

#include <map>
#include <mutex>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "agent/base/clock.hpp"

namespace tally {

namespace {

constexpr std::int64_t window_ns = 10'000'000'000;
constexpr std::uint32_t lines_per_window = 10;

struct Budget {
    std::int64_t window_start_ns = 0;
    std::uint32_t written = 0;
    std::uint64_t suppressed = 0;
};

std::shared_ptr<spdlog::logger> logger() {
    static auto instance = [] {
        auto made = spdlog::stderr_logger_mt("tallyman");
        made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
        return made;
    }();
    return instance;
}

// True when the line may be written; `suppressed` is what was swallowed since the last one that was.
bool admit(std::string_view event, std::uint64_t& suppressed) {
    static std::mutex mutex;
    static std::map<std::string, Budget, std::less<>> budgets;
    const std::lock_guard lock(mutex);
    auto it = budgets.find(event);
    if (it == budgets.end()) it = budgets.emplace(event, Budget{}).first;
    Budget& b = it->second;
    const std::int64_t now = monotonic_ns();
    if (now - b.window_start_ns > window_ns) {
        b.window_start_ns = now;
        b.written = 0;
    }
    if (b.written >= lines_per_window) {
        ++b.suppressed;
        return false;
    }
    ++b.written;
    suppressed = std::exchange(b.suppressed, 0);
    return true;
}

void append_value(std::string& out, std::string_view value) {
    const bool plain = !value.empty() && value.find_first_of(" \"=\\\n\r\t") == std::string_view::npos;
    if (!plain) out += '"';
    for (const char c : value) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            static constexpr char digits[] = "0123456789abcdef";
            out += "\\x";
            out += digits[(c >> 4) & 15];
            out += digits[c & 15];
        } else {
            out += c;
        }
    }
    if (!plain) out += '"';
}

spdlog::level::level_enum level_of(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return spdlog::level::debug;
        case LogLevel::info: return spdlog::level::info;
        case LogLevel::warn: return spdlog::level::warn;
        case LogLevel::error: return spdlog::level::err;
    }
    return spdlog::level::info;
}

}  // namespace

void log_setup(LogLevel level, bool with_time) {
    logger()->set_level(level_of(level));
    logger()->set_pattern(with_time ? "%Y-%m-%dT%H:%M:%S.%e%z %l %v" : "%l %v");
}

void log_set_level(LogLevel level) { logger()->set_level(level_of(level)); }

void log_write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
    if (!logger()->should_log(level_of(level))) return;
    std::uint64_t suppressed = 0;
    if (!admit(event, suppressed)) return;
    std::string line(event);
    for (const LogField& f : fields) {
        line.append(" ").append(f.key).append("=");
        append_value(line, f.value);
    }
    if (suppressed > 0) line += " suppressed=" + std::to_string(suppressed);
    logger()->log(level_of(level), "{}", line);
    logger()->flush();
}

}  // namespace tally
