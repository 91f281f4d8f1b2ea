// SPDX-License-Identifier: Apache-2.0
#include "agent/base/units.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

namespace tally {

namespace {

struct Unit {
    std::string_view name;
    double factor;
};

constexpr Unit byte_units[] = {{"", 1},          {"B", 1},           {"KiB", 1024.0},
                               {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                               {"kB", 1e3},      {"MB", 1e6},        {"GB", 1e9}, {"TB", 1e12}};
constexpr Unit duration_units[] = {{"ns", 1},   {"us", 1e3},    {"ms", 1e6},
                                   {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
constexpr Unit rate_units[] = {{"kbit/s", 1e3 / 8}, {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8}, {"B/s", 1},
                               {"kB/s", 1e3},       {"MB/s", 1e6},       {"GB/s", 1e9},       {"KiB/s", 1024.0},
                               {"MiB/s", 1048576.0}, {"GiB/s", 1073741824.0}};

Result<double> parse_quantity(std::string_view text, std::span<const Unit> units, const char* what) {
    double number = 0;
    const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (err != std::errc{} || !std::isfinite(number) || number < 0) return fail(Code::invalid, what);
    std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
    for (const Unit& u : units) {
        if (u.name != unit) continue;
        const double value = number * u.factor;
        if (value > 9.0e18) return fail(Code::too_big, what);
        return value;
    }
    return fail(Code::invalid, what);
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
    auto v = parse_quantity(text, byte_units, "size: a number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB");
    if (!v) return std::unexpected(v.error());
    return static_cast<std::uint64_t>(*v);
}

Result<std::int64_t> parse_duration_ns(std::string_view text) {
    auto v = parse_quantity(text, duration_units, "duration: a number with ns, us, ms, s, min or h");
    if (!v) return std::unexpected(v.error());
    return static_cast<std::int64_t>(*v);
}

Result<std::uint64_t> parse_rate_bytes(std::string_view text) {
    auto v = parse_quantity(text, rate_units, "rate: a number with kbit/s, Mbit/s, Gbit/s, kB/s, MB/s or GB/s");
    if (!v) return std::unexpected(v.error());
    return static_cast<std::uint64_t>(*v);
}

std::string format_bytes(std::uint64_t bytes) {
    static constexpr const char* names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (v >= 1024 && unit + 1 < std::size(names)) {
        v /= 1024;
        ++unit;
    }
    char buf[32];
    std::snprintf(buf, sizeof buf, unit == 0 ? "%.0f %s" : "%.1f %s", v, names[unit]);
    return buf;
}

std::string format_count(double value) {
    static constexpr const char* names[] = {"", " k", " M", " G", " T"};
    std::size_t unit = 0;
    while (std::fabs(value) >= 1000 && unit + 1 < std::size(names)) {
        value /= 1000;
        ++unit;
    }
    char buf[32];
    std::snprintf(buf, sizeof buf, unit == 0 ? "%.0f%s" : "%.1f%s", value, names[unit]);
    return buf;
}

}  // namespace tally
