// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    One frame record -> tiles, a ledger entry per tile, step statistics.
// Flow    Intake -> FrameEncoder -> the ring's FrameDraft (tiles) and the origin's OriginDraft (ledger, statistics).
// Invariants
//   I1  What a record adds is complete: nothing of it waits for a later record.
//   I2  H and statistics are computed from the same private copy that is encoded.
// Limits  A record gets rows of statistics only up to max(65,536, points / 64): blocks of a few environments with very
//         many steps in one record would otherwise cost more in statistics than in points.

#include "agent/intake/drafts.hpp"
#include "agent/intake/histogram.hpp"
#include "agent/intake/row_list.hpp"

namespace tally::intake {

struct FrameTarget {
    const Block& block;
    const parcel::Origin& origin;
    const std::vector<std::uint64_t>& seeds;  // per metric of the block
    FrameDraft& draft;
};

struct StatsAdded {
    std::uint64_t rows = 0;
    std::uint64_t hash = 0;  // sum of their row hashes
};

class FrameEncoder {
public:
    FrameEncoder(const Options& options, Drafts& drafts) : options_(options), drafts_(drafts) {}

    StatsAdded encode(const FrameTarget& to, const FrameRecord& record, std::int64_t time_ns, parcel::MaybeStep rl_step);

private:
    struct Slice {  // of one tile
        std::uint32_t metric;  // of the record
        std::uint32_t item_first;
        std::uint32_t items;
        std::uint32_t step_offset;
        std::uint32_t steps;
    };
    void dense(const FrameTarget& to, const FrameRecord& record);
    void rows(const FrameTarget& to, const FrameRecord& record);
    void dense_tile(const FrameTarget& to, const FrameRecord& record, const Slice& s);
    void rows_tile(const FrameTarget& to, const FrameRecord& record, const Slice& s, std::size_t row_first);
    void put(const FrameTarget& to, const FrameRecord& record, const Slice& s, ByteView values,
             const parcel::LedgerEntry& entry);
    StatsAdded stats(const FrameTarget& to, const FrameRecord& record);
    parcel::StepStats stats_row(const FrameTarget& to, const FrameRecord& record, std::uint32_t metric, std::uint32_t t);

    const Options& options_;
    Drafts& drafts_;
    parcel::TileEncoder encoder_;
    Histogram histogram_;
    RowList row_list_;
    parcel::Frame frame_;
    OriginDraft* live_ = nullptr;  // of the record at hand
    std::vector<parcel::EnvCount> list_;  // points per environment of the tiles at hand
    std::uint64_t list_id_ = 0;           // of this list; 0 in dense frames
    std::uint64_t lists_ = 0;
    Bytes values_;                 // of one tile, item-major
    Bytes gathered_;               // of one step of one tile
};

}  // namespace tally::intake
