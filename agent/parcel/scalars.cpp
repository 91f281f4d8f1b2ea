// SPDX-License-Identifier: Apache-2.0
// Section 2, scalars.
#include <algorithm>

#include "agent/parcel/fields.hpp"
#include "agent/parcel/planes.hpp"

namespace tally::parcel {

namespace {

void write_series(ByteWriter& w, const ScalarSeries& s) {
    const std::size_t n = s.bits.size();
    TALLY_ASSERT(s.steps.size() == n && s.times_ns.size() == n && s.rl_steps.size() == n);
    write_metric(w, s.metric);
    w.put(static_cast<std::uint32_t>(n));
    write_column(w, s.steps);
    write_column(w, s.times_ns);
    for (const MaybeStep& m : s.rl_steps) w.put(static_cast<std::uint8_t>(m.given));
    for (const MaybeStep& m : s.rl_steps) w.put(m.value);
    const std::uint32_t width = dtype_width(s.metric.dtype);
    for (std::uint32_t p = 0; p < width; ++p)
        for (const std::uint64_t bits : s.bits) w.put(static_cast<std::uint8_t>(bits >> (8 * p)));
}

void read_rl_steps(FieldReader& in, std::uint32_t n, std::vector<MaybeStep>& out) {
    const ByteView given = in.bytes(n);
    const ByteView values = in.bytes(std::size_t{n} * 8);
    if (!in.ok()) return;
    out.resize(n);
    for (std::uint32_t i = 0; i < n; ++i) {
        in.require(given[i] <= 1, "rl_given is neither 0 nor 1");
        out[i].given = given[i] == 1;
        std::memcpy(&out[i].value, values.data() + std::size_t{i} * 8, 8);
    }
}

void read_values(FieldReader& in, std::uint32_t n, ScalarSeries& s) {
    const std::uint32_t width = dtype_width(s.metric.dtype);
    const ByteView planes = in.bytes(std::size_t{n} * width);
    if (!in.ok()) return;
    s.bits.resize(n);
    for (std::uint32_t i = 0; i < n; ++i) s.bits[i] = plane_bits(planes.data(), width, n, i);
    if (s.metric.dtype == Dtype::boolean)
        in.require(std::all_of(s.bits.begin(), s.bits.end(), [](std::uint64_t b) { return b <= 1; }),
                   "bool that is neither 0 nor 1");
}

ScalarSeries read_series(FieldReader& in) {
    ScalarSeries s;
    s.metric = in.metric();
    const std::uint32_t n = in.count(25 + dtype_width(s.metric.dtype));
    in.column(s.steps, n);
    in.column(s.times_ns, n);
    read_rl_steps(in, n, s.rl_steps);
    read_values(in, n, s);
    return s;
}

}  // namespace

void write_scalars(const ScalarSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    w.put(static_cast<std::uint32_t>(section.series.size()));
    for (const ScalarSeries& s : section.series) write_series(w, s);
}

Result<ScalarSection> read_scalars(ByteView body) {
    FieldReader in(body);
    ScalarSection out;
    out.origin = in.origin();
    const std::uint32_t n = in.count(7);
    out.series.reserve(n);
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) out.series.push_back(read_series(in));
    TALLY_TRY(in.finish("scalars section"));
    return out;
}

}  // namespace tally::parcel
