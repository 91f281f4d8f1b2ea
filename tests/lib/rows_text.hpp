// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Rows of an import as text lines, for tests that compare readings.

#include <cstdio>
#include <string>
#include <vector>

#include "tools/import/reader.hpp"

namespace tally::import {

// "step: name=dtype/bits ... [name] (reason)", a line per row.
class RowsText final : public RowSink {
public:
    explicit RowsText(const Names& names) : names_(names) {}
    bool row(const Row& r) override {
        std::string line = std::to_string(r.step) + ":";
        for (const Cell& c : r.cells) {
            char text[32];
            std::snprintf(text, sizeof text, "=%s/%llx", dtype_name(c.value.dtype), static_cast<unsigned long long>(c.value.bits));
            line += " " + names_[c.name] + text;
        }
        for (const std::uint32_t s : r.skipped) line += " [" + names_[s] + "]";
        if (r.nulls > 0) line += " nulls=" + std::to_string(r.nulls);
        if (!r.refused.empty()) line += " (" + r.refused + ")";
        lines.push_back(line);
        return true;
    }
    void config(std::string_view json) override { configs.emplace_back(json); }

    std::vector<std::string> lines, configs;

private:
    const Names& names_;
};

// Reads `bytes` as they would come in growing: at every cut all that was not taken is offered again with more behind it.
inline RowsText read_in_cuts(Reader& reader, std::string_view bytes, std::size_t step, std::size_t* torn = nullptr) {
    RowsText rows(reader.names());
    std::size_t taken = 0;
    for (std::size_t end = 0; end <= bytes.size(); end += step) taken += reader.read(bytes.substr(taken, end - taken), false, rows);
    taken += reader.read(bytes.substr(taken), true, rows);
    if (torn != nullptr) *torn = bytes.size() - taken;
    return rows;
}

}  // namespace tally::import
