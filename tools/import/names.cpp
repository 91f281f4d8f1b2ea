// SPDX-License-Identifier: Apache-2.0
#include "tools/import/reader.hpp"

namespace tally::import {

std::uint32_t Names::index_of(std::string_view name) {
    if (const auto it = index_.find(name); it != index_.end()) return it->second;
    const auto index = static_cast<std::uint32_t>(names_.size());
    const auto [it, added] = index_.emplace(std::string(name), index);
    names_.push_back(&it->first);
    return index;
}

void Row::clear() {
    step = time_ns = 0;
    cells.clear();
    skipped.clear();
    nulls = 0;
    refused.clear();
}

}  // namespace tally::import
