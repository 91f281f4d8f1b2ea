// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The descriptions in a ring (producer, block, series), parsed from a private copy.
// Flow    Consumer copies new registry bytes and feeds them here; intake reads the result.
// Format  agent/ring/LAYOUT.md, "Registry".
// Invariants
//   I1  Names satisfy run_id_valid / metric_name_valid; other texts are UTF-8 without control characters, at most 256
//       bytes (labels 16 KiB); counts are within layout.hpp's limits; metric names of a block are distinct.
//   I2  The first entry is the producer's, exactly once; a block ring has at most one block, a scalar ring none.
//   I3  Series ids are 0, 1, 2, ... in order; (name, dtype) pairs are distinct.
// Errors  corrupt / truncated / unsupported; the registry keeps what was good before.
// Limits  Bounded by the registry's 4 MiB.

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/base/result.hpp"
#include "agent/base/types.hpp"
#include "agent/ring/layout.hpp"

namespace tally::ring {

struct ProducerInfo {
    std::int64_t run_created_ns = 0;
    std::int64_t fork_step = INT64_MAX;
    std::uint32_t attempt = 0;
    std::uint32_t producers = 0;
    std::string run;
    std::string project;
    std::string name;
    std::string role;
    std::string host;
    std::string labels;  // JSON object text, or empty; not parsed here
    std::optional<Uuid> continues;
};

struct MetricInfo {
    Dtype dtype = Dtype::f32;
    std::string name;
};

struct BlockInfo {
    std::uint32_t block = 0;
    std::uint32_t env_first = 0;
    std::uint32_t env_count = 0;
    std::vector<MetricInfo> metrics;
};

struct SeriesInfo {
    Dtype dtype = Dtype::f64;
    std::string name;
};

class Registry {
public:
    explicit Registry(RingKind kind) : kind_(kind) {}

    // Parses whole entries; `bytes` must end at an entry's end.
    Status append(ByteView bytes);

    const std::optional<ProducerInfo>& producer() const { return producer_; }
    const std::optional<BlockInfo>& block() const { return block_; }
    const std::vector<SeriesInfo>& series() const { return series_; }

private:
    Status entry(RegistryKind kind, ByteView body);
    Status add_producer(ByteReader& in);
    Status add_block(ByteReader& in);
    Status add_series(ByteReader& in);

    RingKind kind_;
    std::optional<ProducerInfo> producer_;
    std::optional<BlockInfo> block_;
    std::vector<SeriesInfo> series_;
    std::set<std::pair<std::string, Dtype>> series_names_;
};

}  // namespace tally::ring
