// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Everything of the batch in the making: closes sections into parcels as they fill.
// Invariants
//   I1  No parcel is larger than 4 MiB: sections are closed at the target, and what one record adds between two checks is
//       bounded (a tile, a ledger list, a row of statistics, a scalar or event record).
//   I2  Live parcels come first, and there is at least one if there is any.
// Limits  Memory is that of the batch; bytes() tells when to cut.

#include <map>
#include <utility>

#include "agent/intake/batch.hpp"
#include "agent/intake/frame_draft.hpp"
#include "agent/intake/options.hpp"
#include "agent/intake/origin_draft.hpp"

namespace tally::intake {

class Drafts {
public:
    explicit Drafts(const Options& options) : options_(options) {}

    void start(const parcel::StartSection& section);
    // Valid until take().
    OriginDraft& origin(const parcel::Origin& origin);
    // After something was added: closes what is full.
    void check_live(OriginDraft& draft);
    void check_scalars(OriginDraft& draft);
    // A section that fills a parcel alone, or shares one with other small ones.
    void add_frames(FrameDraft& draft);

    bool empty() const { return parcels_.empty() && origins_.empty() && live_.empty() && bulk_.empty(); }
    std::size_t bytes() const { return closed_bytes_ + live_.bytes() + bulk_.bytes(); }
    std::size_t parcels() const { return parcels_.size(); }
    bool has_live() const;
    std::vector<DraftParcel> take(std::int64_t now_wall_ns);

private:
    static constexpr std::size_t sections_per_parcel = 1000;

    void close_live();
    void close_bulk();
    void close(Lane lane, parcel::ParcelBuilder& builder, std::uint64_t points);
    bool full(const parcel::ParcelBuilder& builder) const;

    const Options& options_;
    std::map<std::pair<Uuid, std::uint32_t>, OriginDraft> origins_;
    parcel::ParcelBuilder live_;
    parcel::ParcelBuilder bulk_;
    parcel::ParcelBuilder alone_;
    std::uint64_t bulk_points_ = 0;
    std::vector<DraftParcel> parcels_;
    std::size_t closed_bytes_ = 0;
    Bytes scratch_;
};

}  // namespace tally::intake
