// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/frame_draft.hpp"

#include <algorithm>

namespace tally::intake {

void FrameDraft::begin(const parcel::Origin& origin, const Block& block) {
    TALLY_ASSERT(empty());
    head_.origin = origin;
    head_.block = block.block;
    head_.env_first = block.env_first;
    head_.env_count = block.env_count;
    slots_.resize(block.metrics.size());
    head_bytes_ = 64 + origin.run.size() + origin.project.size();
}

void FrameDraft::frame(const parcel::Frame& frame) {
    frame_ = &frame;
    frame_added_ = false;
}

std::uint32_t FrameDraft::metric_slot(const Block& block, std::uint32_t metric) {
    if (slots_[metric] == 0) {
        head_.metrics.push_back(block.metrics[metric]);
        slots_[metric] = static_cast<std::uint32_t>(head_.metrics.size());
        head_bytes_ += 3 + block.metrics[metric].name.size();
    }
    return slots_[metric] - 1;
}

void FrameDraft::tile(parcel::TileEncoder& encoder, const Block& block, std::uint32_t metric, std::uint32_t item_first,
                      std::uint32_t items, std::uint32_t step_offset, std::uint32_t steps, ByteView values) {
    if (!frame_added_) {
        head_.frames.push_back(*frame_);
        head_bytes_ += 48 + frame_->rows.size() * 4;
        rows_ += frame_->rows.size();
        frame_added_ = true;
    }
    parcel::TileHeader where{};
    where.frame = static_cast<std::uint32_t>(head_.frames.size() - 1);
    where.metric = static_cast<std::uint16_t>(metric_slot(block, metric));
    where.item_first = item_first;
    where.items = items;
    where.step_offset = step_offset;
    where.steps = steps;
    encoder.append_values(where, block.metrics[metric].dtype, values, data_);
    ++tiles_;
    points_ += std::uint64_t{items} * steps;
}

void FrameDraft::write(Bytes& out) {
    const std::size_t at = out.size();
    out.reserve(at + bytes() + bytes() / 16);
    parcel::write_frames_head(head_, out);
    const std::size_t count_at = out.size() - 8;  // the head ends with the number of tiles and four zero bytes
    std::memcpy(out.data() + count_at, &tiles_, sizeof tiles_);
    out.insert(out.end(), data_.begin(), data_.end());
    head_.metrics.clear();
    head_.frames.clear();
    std::fill(slots_.begin(), slots_.end(), 0U);
    data_.clear();
    tiles_ = 0;
    head_bytes_ = rows_ = 0;
    points_ = 0;
    frame_added_ = false;
}

}  // namespace tally::intake
