// SPDX-License-Identifier: Apache-2.0
// Section 5, step statistics.
#include "agent/parcel/fields.hpp"

namespace tally::parcel {

namespace {

constexpr std::size_t row_fixed_bytes = 12 + 16 + 16 + 32 + 4;

void write_row(ByteWriter& w, const StepStats& s, std::vector<std::uint16_t>& differences) {
    TALLY_ASSERT(s.bins.size() == s.bin_counts.size());
    RowWriter<row_fixed_bytes> row;
    row.put(s.metric).put(s.env_first).put(s.env_count).put(s.step).put(s.time_ns).put(s.count).put(s.nonfinite);
    row.put(s.min).put(s.max).put(s.sum).put(s.sum_squares).put(static_cast<std::uint32_t>(s.bins.size()));
    row.flush(w);
    differences.resize(s.bins.size());
    std::uint16_t before = 0;
    for (std::size_t i = 0; i < s.bins.size(); ++i) {
        differences[i] = static_cast<std::uint16_t>(s.bins[i] - before);
        before = s.bins[i];
    }
    write_column(w, differences);
    write_column(w, s.bin_counts);
}

void read_bins(FieldReader& in, StepStats& s) {
    const std::uint32_t n = in.count(6);
    in.column(s.bins, n);
    in.column(s.bin_counts, n);
    std::uint32_t bin = 0;
    for (std::size_t i = 0; i < s.bins.size(); ++i) {
        in.require(i == 0 || s.bins[i] != 0, "order of histogram bins");
        bin += s.bins[i];
        in.require(bin <= UINT16_MAX, "histogram bin");
        s.bins[i] = static_cast<std::uint16_t>(bin);
    }
}

StepStats read_row(FieldReader& in, std::size_t metrics) {
    StepStats s;
    s.metric = in.get<std::uint32_t>();
    s.env_first = in.get<std::uint32_t>();
    s.env_count = in.get<std::uint32_t>();
    s.step = in.get<std::int64_t>();
    s.time_ns = in.get<std::int64_t>();
    s.count = in.get<std::uint64_t>();
    s.nonfinite = in.get<std::uint64_t>();
    s.min = in.get<double>();
    s.max = in.get<double>();
    s.sum = in.get<double>();
    s.sum_squares = in.get<double>();
    read_bins(in, s);
    if (in.ok()) in.require(s.metric < metrics && s.nonfinite <= s.count, "row of statistics");
    return s;
}

}  // namespace

void write_stats(const StatsSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    write_metrics(w, section.metrics);
    w.put(static_cast<std::uint32_t>(section.stats.size()));
    std::vector<std::uint16_t> differences;
    for (const StepStats& s : section.stats) write_row(w, s, differences);
}

Result<StatsSection> read_stats(ByteView body) {
    FieldReader in(body);
    StatsSection out;
    out.origin = in.origin();
    out.metrics = in.metrics();
    const std::uint32_t n = in.count(row_fixed_bytes);
    out.stats.reserve(n);
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) out.stats.push_back(read_row(in, out.metrics.size()));
    TALLY_TRY(in.finish("stats section"));
    return out;
}

}  // namespace tally::parcel
