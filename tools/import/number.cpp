// SPDX-License-Identifier: Apache-2.0
#include "tools/import/number.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace tally::import {

namespace {

constexpr std::uint64_t exact_max = std::uint64_t{1} << 53;
constexpr std::size_t text_max = 1024;  // longer is no number anybody logged

bool is_word(std::string_view text, std::string_view word) {
    return text.size() == word.size() && std::equal(text.begin(), text.end(), word.begin(), [](char a, char b) {
               return std::tolower(static_cast<unsigned char>(a)) == b;
           });
}

std::optional<double> special_of(std::string_view unsigned_text, bool negative) {
    double v = 0;
    if (is_word(unsigned_text, "nan")) {
        v = std::numeric_limits<double>::quiet_NaN();
    } else if (is_word(unsigned_text, "inf") || is_word(unsigned_text, "infinity")) {
        v = std::numeric_limits<double>::infinity();
    } else {
        return std::nullopt;
    }
    return negative ? -v : v;
}

bool all_digits(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
    T v = 0;
    const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (err != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return v;
}

std::optional<double> parse_double(std::string_view text) {
    double v = 0;
    const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (end != text.data() + text.size()) return std::nullopt;
    if (err == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);  // from_chars leaves v alone
    if (err != std::errc()) return std::nullopt;
    return v;
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    return text;
}

Number of_u64(std::uint64_t v) {
    if (v <= exact_max) return of_f64(static_cast<double>(v));
    return {Dtype::u64, v};
}

Number of_i64(std::int64_t v) {
    const std::uint64_t magnitude = v < 0 ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v);
    if (magnitude <= exact_max) return of_f64(static_cast<double>(v));
    return {Dtype::i64, static_cast<std::uint64_t>(v)};
}

std::optional<Number> number_of_text(std::string_view text) {
    text = without_blanks(text);
    if (text.empty() || text.size() > text_max) return std::nullopt;
    const bool negative = text.front() == '-';
    const std::string_view body = negative || text.front() == '+' ? text.substr(1) : text;
    if (body.empty()) return std::nullopt;
    if (const auto special = special_of(body, negative)) return of_f64(*special);
    if (body.front() != '.' && (body.front() < '0' || body.front() > '9')) return std::nullopt;  // from_chars knows more words
    const std::string_view signed_body = negative ? text : body;
    if (all_digits(body) && body.find_first_not_of('0') != body.npos) {  // "-0" is minus zero, a double
        if (const auto v = parse_whole<std::int64_t>(signed_body)) return of_i64(*v);
        if (const auto v = parse_whole<std::uint64_t>(signed_body)) return of_u64(*v);
    }
    if (const auto v = parse_double(signed_body)) return of_f64(*v);
    return std::nullopt;
}

std::optional<Number> number_with_unit(std::string_view text) {
    static constexpr std::array<std::string_view, 10> units{"%", "MiB", "GiB", "KiB", "MB", "GB", "W", "MHz", "C", "MiB/s"};
    text = without_blanks(text);
    const std::size_t gap = text.find_last_of(' ');
    if (gap == text.npos || std::find(units.begin(), units.end(), text.substr(gap + 1)) == units.end()) return std::nullopt;
    return number_of_text(text.substr(0, gap));
}

double value_of(Number n) { return dtype_to_f64(n.dtype, n.bits); }

std::optional<std::int64_t> whole_of(Number n) {
    if (n.dtype == Dtype::i64) return static_cast<std::int64_t>(n.bits);
    if (n.dtype == Dtype::u64 || n.dtype == Dtype::boolean) return std::nullopt;
    const double v = value_of(n);
    if (!(std::abs(v) <= static_cast<double>(exact_max)) || v != std::floor(v)) return std::nullopt;
    return static_cast<std::int64_t>(v);
}

std::int64_t time_ns_of(double seconds) {
    if (!(seconds > 0) || seconds > 9.2e9) return 0;
    const double whole = std::floor(seconds);  // apart, so that the nanoseconds keep what a double has of them
    return static_cast<std::int64_t>(whole) * 1'000'000'000 + static_cast<std::int64_t>((seconds - whole) * 1e9);
}

}  // namespace tally::import
