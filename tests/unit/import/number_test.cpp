// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tools/import/number.hpp"

using namespace tally;
using namespace tally::import;

TEST_CASE("text is a number only in plain decimal form") {
    for (const char* text : {"", " ", "-", "+", ".", "e5", "0x10", "1_000", "11e50_00000", "1,5", "1e", "nanx", "nan(1)", "infin", "--1", "+-1", "True"}) {
        CHECK_MESSAGE(!number_of_text(text), text);
    }
    CHECK(number_of_text(" 1.5\t") == of_f64(1.5));
    CHECK(number_of_text("+2") == of_f64(2));
    CHECK(number_of_text(".5") == of_f64(.5));
    CHECK(number_of_text("5.") == of_f64(5));
    CHECK(number_of_text("1E-3") == of_f64(1e-3));
    CHECK(number_of_text("-0") == of_f64(-0.0));
    CHECK(number_of_text("-0.0") == of_f64(-0.0));
    CHECK(number_of_text("000") == of_f64(0));
}

TEST_CASE("decimal text is rounded correctly, beyond a double it is infinite or zero") {
    CHECK(number_of_text("9007199254740993.0") == of_f64(9007199254740992.0));
    CHECK(number_of_text("0.1") == of_f64(0.1));
    CHECK(number_of_text("2.2250738585072011e-308") == of_f64(2.2250738585072011e-308));
    CHECK(number_of_text("4.9e-324") == of_f64(std::numeric_limits<double>::denorm_min()));
    CHECK(number_of_text("1e400") == of_f64(std::numeric_limits<double>::infinity()));
    CHECK(number_of_text("-1e400") == of_f64(-std::numeric_limits<double>::infinity()));
    CHECK(number_of_text("1e-400") == of_f64(0.0));
    CHECK(std::isnan(value_of(*number_of_text("NaN"))));
    CHECK(number_of_text("-Infinity") == of_f64(-std::numeric_limits<double>::infinity()));
    CHECK(number_of_text("+inf") == of_f64(std::numeric_limits<double>::infinity()));
}

TEST_CASE("whole numbers beyond 2^53 keep every digit") {
    CHECK(number_of_text("9007199254740992") == of_f64(9007199254740992.0));
    CHECK(*number_of_text("9007199254740993") == Number{Dtype::i64, 9007199254740993U});
    CHECK(*number_of_text("-9223372036854775808") == Number{Dtype::i64, 1ULL << 63});
    CHECK(*number_of_text("18446744073709551615") == Number{Dtype::u64, ~0ULL});
    CHECK(number_of_text("18446744073709551616") == of_f64(18446744073709551616.0));
}

TEST_CASE("a step is whole and fits") {
    CHECK(whole_of(of_f64(25001984.0)) == 25001984);
    CHECK(whole_of(of_f64(-3)) == -3);
    CHECK(whole_of(*number_of_text("9007199254740993")) == 9007199254740993);
    for (const double v : {0.5, std::nan(""), 1e300, std::numeric_limits<double>::infinity()}) CHECK_FALSE(whole_of(of_f64(v)));
}

TEST_CASE("readings carry one known unit") {
    CHECK(number_with_unit("20146 MiB") == of_f64(20146));
    CHECK(number_with_unit(" 0 %") == of_f64(0));
    CHECK_FALSE(number_with_unit("3 apples"));
    CHECK_FALSE(number_with_unit("20146"));
    CHECK_FALSE(number_with_unit("x MiB"));
}

TEST_CASE("seconds become nanoseconds only where that makes sense") {
    CHECK(time_ns_of(1652199170.5) == 1652199170500000000);
    for (const double s : {0.0, -1.0, 1e300, std::nan("")}) CHECK(time_ns_of(s) == 0);
}
