// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "agent/base/types.hpp"
#include "agent/client/convert.hpp"

using namespace tally;
using client::bits_from_f64;
using client::bits_from_i64;

TEST_CASE("every f16 and bf16 value comes back from the f64 it means, and half way rounds to even") {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        for (const Dtype d : {Dtype::f16, Dtype::bf16}) {
            const double value = dtype_to_f64(d, bits);
            if (std::isnan(value)) {
                CHECK(std::isnan(dtype_to_f64(d, bits_from_f64(static_cast<int>(d), value))));
            } else {
                CHECK_MESSAGE(bits_from_f64(static_cast<int>(d), value) == bits, dtype_name(d), " ", bits);
            }
        }
    }
    CHECK(bits_from_f64(TALLY_F16, 1.0 + 1.0 / 2048) == 0x3C00);       // half way, even below
    CHECK(bits_from_f64(TALLY_F16, 1.0 + 3.0 / 2048) == 0x3C02);       // half way, even above
    CHECK(bits_from_f64(TALLY_F16, 1.0 + 1.0 / 2048 + 1e-9) == 0x3C01);
    CHECK(bits_from_f64(TALLY_F16, 65520) == 0x7C00);
    CHECK(bits_from_f64(TALLY_F16, 65519.9) == 0x7BFF);
    CHECK(bits_from_f64(TALLY_BF16, 1.0 + 1.0 / 256) == 0x3F80);
    CHECK(bits_from_f64(TALLY_BF16, 1.0 + 3.0 / 256) == 0x3F82);
}

TEST_CASE("equal dtypes are copied bit for bit, contiguous or strided, bool aside, which becomes 0 or 1") {
    const std::uint32_t odd[] = {0x7F800001, 0xFFC12345, 0x80000000, 1};
    std::uint32_t out[4] = {};
    client::convert(odd, TALLY_F32, 0, 4, TALLY_F32, reinterpret_cast<std::uint8_t*>(out));
    CHECK(std::equal(odd, odd + 4, out));
    client::convert(odd + 3, TALLY_F32, -4, 4, TALLY_F32, reinterpret_cast<std::uint8_t*>(out));
    CHECK(out[0] == 1);
    CHECK(out[3] == 0x7F800001);
    const std::uint8_t truth[] = {0, 1, 2, 255};
    std::uint8_t clean[4] = {};
    client::convert(truth, TALLY_BOOL, 0, 4, TALLY_BOOL, clean);
    CHECK(clean[2] == 1);
    CHECK(clean[3] == 1);
    CHECK(clean[0] == 0);
}

TEST_CASE("floats saturate into integers, NaN becomes 0, integers wrap") {
    CHECK(static_cast<std::int8_t>(bits_from_f64(TALLY_I8, 1e9)) == 127);
    CHECK(static_cast<std::int8_t>(bits_from_f64(TALLY_I8, -1e9)) == -128);
    CHECK(bits_from_f64(TALLY_U64, -5) == 0);
    CHECK(bits_from_f64(TALLY_U64, 1e30) == UINT64_MAX);
    CHECK(static_cast<std::int64_t>(bits_from_f64(TALLY_I64, 1e30)) == INT64_MAX);
    CHECK(bits_from_f64(TALLY_I32, std::numeric_limits<double>::quiet_NaN()) == 0);
    CHECK(bits_from_i64(TALLY_U8, 257) == 1);
    CHECK(bits_from_i64(TALLY_BOOL, 256) == 1);
    CHECK(bits_from_i64(TALLY_I64, INT64_MIN) == 0x8000000000000000);
    CHECK(bits_from_f64(TALLY_F64, -0.0) == 0x8000000000000000);
}
