// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The metric table of a section while it is filled: (name, dtype) -> index.
// Limits  A section's table holds 65,535; full() says when to close the section.

#include <string>
#include <unordered_map>
#include <vector>

#include "agent/parcel/sections.hpp"

namespace tally::intake {

class MetricTable {
public:
    std::uint32_t index(const parcel::Metric& metric);
    const std::vector<parcel::Metric>& metrics() const { return metrics_; }
    std::size_t size() const { return metrics_.size(); }
    bool full() const { return metrics_.size() >= UINT16_MAX; }
    void clear();

private:
    struct Hash {
        std::size_t operator()(const parcel::Metric& m) const {
            return std::hash<std::string>{}(m.name) * 31 + static_cast<std::size_t>(m.dtype);
        }
    };
    std::vector<parcel::Metric> metrics_;
    std::unordered_map<parcel::Metric, std::uint32_t, Hash> index_;
};

}  // namespace tally::intake
