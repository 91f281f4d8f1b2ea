// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "agent/parcel/utf8.hpp"

using namespace tally::parcel;

TEST_CASE("well-formed UTF-8 of every length is accepted and left alone by repair") {
    for (const char* s : {"", "plain ascii of some length", "gr\xC3\xBC\xC3\x9F", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
        CHECK(utf8_valid(s));
        CHECK(utf8_repaired(s) == s);
    }
}

TEST_CASE("overlong forms, surrogates, cut sequences and stray bytes are refused and repaired") {
    for (const char* s : {"\x80", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8", "12345678\xC3", "\xE2\x82"}) {
        CHECK_FALSE(utf8_valid(s));
        CHECK(utf8_valid(utf8_repaired(s)));
    }
    CHECK(utf8_repaired("a\xFF" "b") == "a\xEF\xBF\xBD" "b");
}
