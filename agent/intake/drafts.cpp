// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/drafts.hpp"

#include <algorithm>
#include <cstring>

namespace tally::intake {

using parcel::SectionKind;

void Drafts::start(const parcel::StartSection& section) {
    scratch_.clear();
    parcel::write_start(section, scratch_);
    live_.add(SectionKind::start, scratch_, false);
}

OriginDraft& Drafts::origin(const parcel::Origin& origin) {
    return origins_.try_emplace({origin.producer, origin.attempt}, origin).first->second;
}

bool Drafts::full(const parcel::ParcelBuilder& builder) const {
    return builder.bytes() >= options_.parcel_bytes_target || builder.sections() >= sections_per_parcel;
}

void Drafts::check_live(OriginDraft& draft) {
    if (draft.live_bytes() < options_.parcel_bytes_target && !draft.live_tables_full()) return;
    draft.write_live(live_, scratch_);
    if (full(live_)) close_live();
}

void Drafts::check_scalars(OriginDraft& draft) {
    if (draft.scalar_bytes() < options_.parcel_bytes_target && !draft.scalar_tables_full()) return;
    bulk_points_ += draft.write_scalars(bulk_, scratch_);
    if (full(bulk_)) close_bulk();
    check_live(draft);
}

void Drafts::add_frames(FrameDraft& draft) {
    if (draft.empty()) return;
    const std::uint64_t points = draft.points();
    const bool compress = draft.compressible();
    scratch_.clear();
    draft.write(scratch_);
    if (scratch_.size() >= options_.parcel_bytes_target) {
        alone_.add(SectionKind::frames, scratch_, compress);
        return close(Lane::bulk, alone_, points);
    }
    bulk_.add(SectionKind::frames, scratch_, compress);
    bulk_points_ += points;
    if (full(bulk_)) close_bulk();
}

void Drafts::close(Lane lane, parcel::ParcelBuilder& builder, std::uint64_t points) {
    Bytes bytes = builder.finish(lane, points, 0);
    closed_bytes_ += bytes.size();
    parcels_.push_back({lane, std::move(bytes), points});
}

void Drafts::close_live() {
    if (live_.empty()) return;
    close(Lane::live, live_, 0);
}

void Drafts::close_bulk() {
    if (bulk_.empty()) return;
    close(Lane::bulk, bulk_, bulk_points_);
    bulk_points_ = 0;
}

bool Drafts::has_live() const {
    const auto live = [](const DraftParcel& p) { return p.lane == Lane::live; };
    const auto some = [](const auto& entry) { return entry.second.live_bytes() + entry.second.scalar_bytes() != 0; };
    return !live_.empty() || std::any_of(parcels_.begin(), parcels_.end(), live) ||
           std::any_of(origins_.begin(), origins_.end(), some);
}

std::vector<DraftParcel> Drafts::take(std::int64_t now_wall_ns) {
    for (auto& [id, draft] : origins_) {
        bulk_points_ += draft.write_scalars(bulk_, scratch_);
        if (full(bulk_)) close_bulk();
        draft.write_live(live_, scratch_);
            if (full(live_)) close_live();
    }
    close_live();
    close_bulk();
    origins_.clear();
    closed_bytes_ = 0;
    std::stable_partition(parcels_.begin(), parcels_.end(), [](const DraftParcel& p) { return p.lane == Lane::live; });
    for (DraftParcel& p : parcels_)
        std::memcpy(p.bytes.data() + offsetof(parcel::ParcelHeader, created_ns), &now_wall_ns, sizeof now_wall_ns);
    return std::exchange(parcels_, {});
}

}  // namespace tally::intake
