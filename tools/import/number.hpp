// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Numbers of foreign logs, exact: the value's own bits and the dtype that holds them.
// Threads Pure functions.

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "agent/base/types.hpp"

namespace tally::import {

struct Number {
    Dtype dtype = Dtype::f64;
    std::uint64_t bits = 0;  // zero-extended
    bool operator==(const Number&) const = default;
};

inline Number of_f64(double v) { return {Dtype::f64, std::bit_cast<std::uint64_t>(v)}; }
inline Number of_f32(float v) { return {Dtype::f32, std::bit_cast<std::uint32_t>(v)}; }
inline Number of_bool(bool v) { return {Dtype::boolean, v ? 1U : 0U}; }
// Whole numbers share the series of the doubles while a double holds them; beyond 2^53 they are kept as 64-bit integers.
Number of_i64(std::int64_t v);
Number of_u64(std::uint64_t v);

// Decimal digits with optional sign, point and exponent, or nan, inf, infinity in any case; blanks around it apart. Rounded correctly;
// beyond the range of a double it is infinite or zero, as IEEE 754 rounds. Anything else is text.
std::optional<Number> number_of_text(std::string_view text);
// The same without nan and infinities, in quotes or not, for a cell such as "20146 MiB": the number before one known unit.
std::optional<Number> number_with_unit(std::string_view text);

double value_of(Number n);
// The step a number stands for, when it is whole and fits.
std::optional<std::int64_t> whole_of(Number n);
// Seconds since 1970 as nanoseconds; 0 (= not known) when it makes no sense.
std::int64_t time_ns_of(double seconds);
std::string_view without_blanks(std::string_view text);

}  // namespace tally::import
