// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A frames section while it is filled: only the frames and metrics that have tiles in it are in its tables.
// Owns    Its buffers, reused from section to section.

#include "agent/intake/record.hpp"
#include "agent/parcel/tile_codec.hpp"

namespace tally::intake {

class FrameDraft {
public:
    // Before the first tile of an empty draft.
    void begin(const parcel::Origin& origin, const Block& block);
    // The frame that the following tiles belong to; borrowed until the next call.
    void frame(const parcel::Frame& frame);
    // `metric` is an index in the block.
    void tile(parcel::TileEncoder& encoder, const Block& block, std::uint32_t metric, std::uint32_t item_first,
              std::uint32_t items, std::uint32_t step_offset, std::uint32_t steps, ByteView values);

    bool empty() const { return tiles_ == 0; }
    const parcel::Origin& origin() const { return head_.origin; }
    std::size_t bytes() const { return head_bytes_ + data_.size(); }
    std::uint64_t points() const { return points_; }
    // Large tiles are compressed already; row lists and the headers of small tiles are not.
    bool compressible() const { return rows_ != 0 || data_.size() < std::size_t{tiles_} * 1024; }
    // Appends the section's body; the draft is empty afterwards.
    void write(Bytes& out);

private:
    std::uint32_t metric_slot(const Block& block, std::uint32_t metric);

    parcel::FrameSection head_;
    std::vector<std::uint32_t> slots_;  // block metric -> index in the section + 1; 0: not in it yet
    const parcel::Frame* frame_ = nullptr;
    bool frame_added_ = false;
    Bytes data_;
    std::uint32_t tiles_ = 0;
    std::size_t head_bytes_ = 0;
    std::size_t rows_ = 0;
    std::uint64_t points_ = 0;
};

}  // namespace tally::intake
