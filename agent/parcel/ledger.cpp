// SPDX-License-Identifier: Apache-2.0
// Section 3, ledger.
#include "agent/parcel/fields.hpp"

namespace tally::parcel {

namespace {

constexpr std::uint32_t same_as_before = UINT32_MAX;  // FORMAT.md: metrics of a frame share one list
constexpr std::size_t entry_fixed_bytes = 12 + 16 + 24 + 4;
// Repeated lists cost their reader memory that the section's bytes do not bound.
constexpr std::uint64_t env_points_max = 16U << 20;

void write_entry(ByteWriter& w, const LedgerEntry& e) {
    RowWriter<entry_fixed_bytes> row;
    row.put(e.metric).put(e.env_first).put(e.env_count).put(e.step_first).put(e.step_last).put(e.points).put(e.hash).put(e.when);
    row.put(e.same_list ? same_as_before : static_cast<std::uint32_t>(e.env_points.size()));
    row.flush(w);
    if (!e.same_list) write_column(w, e.env_points);
}

void check_entry(FieldReader& in, const LedgerEntry& e, std::size_t metrics) {
    in.require(e.metric < metrics, "metric of a ledger entry");
    in.require(std::uint64_t{e.env_first} + e.env_count <= std::uint64_t{UINT32_MAX} + 1, "range of a ledger entry");
    in.require(e.step_first <= e.step_last, "steps of a ledger entry");
    std::uint64_t next = e.env_first;
    for (const EnvCount& c : e.env_points) {
        in.require(c.env >= next && c.env - e.env_first < e.env_count, "environments of a ledger entry");
        next = std::uint64_t{c.env} + 1;
    }
}

LedgerEntry read_entry(FieldReader& in, const LedgerSection& s) {
    LedgerEntry e;
    e.metric = in.get<std::uint32_t>();
    e.env_first = in.get<std::uint32_t>();
    e.env_count = in.get<std::uint32_t>();
    e.step_first = in.get<std::int64_t>();
    e.step_last = in.get<std::int64_t>();
    e.points = in.get<std::uint64_t>();
    e.hash = in.get<std::uint64_t>();
    e.when = in.get<std::uint64_t>();
    const auto m = in.get<std::uint32_t>();
    if (m == same_as_before) {
        in.require(!s.entries.empty() && !s.entries.back().env_points.empty(), "list of a ledger entry");
        if (in.ok()) e.env_points = s.entries.back().env_points;
    } else if (m > in.left() / sizeof(EnvCount)) {
        in.refuse(Code::truncated, "list of a ledger entry");
    } else {
        in.column(e.env_points, m);
    }
    if (in.ok()) check_entry(in, e, s.metrics.size());
    return e;
}

}  // namespace

void write_ledger(const LedgerSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    write_metrics(w, section.metrics);
    w.put(static_cast<std::uint32_t>(section.entries.size()));
    for (const LedgerEntry& e : section.entries) write_entry(w, e);
}

Result<LedgerSection> read_ledger(ByteView body) {
    FieldReader in(body);
    LedgerSection s;
    s.origin = in.origin();
    s.metrics = in.metrics();
    const std::uint32_t n = in.count(entry_fixed_bytes);
    s.entries.reserve(n);
    std::uint64_t listed = 0;
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) {
        s.entries.push_back(read_entry(in, s));
        listed += s.entries.back().env_points.size();
        if (listed > env_points_max) in.refuse(Code::too_big, "environment lists of a ledger section");
    }
    TALLY_TRY(in.finish("ledger section"));
    return s;
}

}  // namespace tally::parcel
