// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Bodies of ring records, checked against what the ring registered. Views into the private copy.
// Format  agent/ring/LAYOUT.md, "Records".
// Invariants
//   I1  What a parse_*() returned can be used without another bound check: lengths, environments, series, steps and bools
//       are in range, the last step is a number.
// Errors  corrupt; nothing was kept.

#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/base/result.hpp"
#include "agent/parcel/sections.hpp"
#include "agent/ring/layout.hpp"

namespace tally::intake {

struct Block {
    std::uint32_t block = 0;  // 0: the ring has none
    std::uint32_t env_first = 0;
    std::uint32_t env_count = 0;
    std::vector<parcel::Metric> metrics;
};

struct FrameRecord {
    ring::FrameBody body{};
    std::uint32_t n = 0;  // values per vector
    ByteView rows;        // u32 each
    const std::uint8_t* values = nullptr;
    std::vector<std::uint64_t> offsets;  // of each metric's vector within a step
    std::uint64_t step_bytes = 0;

    bool dense() const { return body.rows_listed == 0; }
    std::uint64_t points() const { return std::uint64_t{n} * body.metrics * body.steps; }
    std::int64_t step(std::uint32_t t) const { return body.step_first + body.step_stride * t; }
    const std::uint8_t* vector(std::uint32_t metric, std::uint32_t t) const {
        return values + t * step_bytes + offsets[metric];
    }
};
// Fills `out` (its buffer is reused).
Status parse_frame(ByteView body, const Block& block, FrameRecord& out);

struct ScalarRecord {
    std::int64_t step = 0;
    ByteView values;  // ring::ScalarValue each
    std::size_t count() const { return values.size() / sizeof(ring::ScalarValue); }
    ring::ScalarValue at(std::size_t i) const {
        ring::ScalarValue v;
        std::memcpy(&v, values.data() + i * sizeof v, sizeof v);
        return v;
    }
};
Result<ScalarRecord> parse_scalars(ByteView body, const std::vector<parcel::Metric>& series);

Result<std::vector<parcel::EpisodeHeader>> parse_episodes(ByteView body);
Result<parcel::Event> parse_event(ByteView body);  // texts repaired to UTF-8, time not set
Result<std::int64_t> parse_rewind(ByteView body);
Result<ring::CloseBody> parse_close(ByteView body);

}  // namespace tally::intake
