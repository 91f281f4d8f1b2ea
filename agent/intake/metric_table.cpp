// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/metric_table.hpp"

namespace tally::intake {

std::uint32_t MetricTable::index(const parcel::Metric& metric) {
    const auto [it, fresh] = index_.try_emplace(metric, static_cast<std::uint32_t>(metrics_.size()));
    if (fresh) metrics_.push_back(metric);
    return it->second;
}

void MetricTable::clear() {
    metrics_.clear();
    index_.clear();
}

}  // namespace tally::intake
