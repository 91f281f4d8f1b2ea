// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The rows of one record in the order of the parcel: by environment, equal ones as the caller gave them; cut into
//         pieces of one range and at most 4,096 rows each.
// Owns    Buffers, reused.

#include <span>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/parcel/sections.hpp"

namespace tally::intake {

class RowList {
public:
    // `rows`: u32 each.
    void sort(ByteView rows);
    std::size_t size() const { return envs_.size(); }
    // Relative to the block, ascending.
    std::span<const std::uint32_t> envs() const { return envs_; }
    // End of the piece that begins at `first`.
    std::size_t piece_end(std::size_t first) const;
    // Values of rows [first, first + n) of one vector, in this order.
    void gather(const std::uint8_t* vector, std::uint32_t width, std::size_t first, std::size_t n,
                std::uint8_t* out) const;
    // Runs of equal environments in [first, last), each counted `times` per row, numbered from env_base.
    std::vector<parcel::EnvCount> counts(std::size_t first, std::size_t last, std::uint32_t env_base,
                                         std::uint32_t times) const;

private:
    std::vector<std::uint32_t> envs_;
    std::vector<std::uint32_t> order_;  // position in the caller's list
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint64_t> spare_;
};

}  // namespace tally::intake
