// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Parcels -> rows of the store's tables, as Native blocks: one per table and month for a whole batch.
// Flow    Store -> RowBuilder::add_parcel -> blocks() -> Connection::insert; reconcile tests build stores the same way.
// Format  agent/parcel/FORMAT.md "Rows": a row is a pure function of its parcel, so two sinks write the same rows.
// Invariants
//   I1 a section is in the blocks whole or not at all; a refused one leaves one gap row that says so.
// Errors  None: what cannot be decoded is refused, counted and declared.
// Limits  parcel_points_max values of one parcel, whatever it claims: a constant tile of 40 bytes expands 50,000-fold.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "agent/parcel/parcel.hpp"
#include "transport/sink/native.hpp"

namespace tally::sink {

inline constexpr std::uint64_t parcel_points_max = 64ULL << 20;

// yyyymm of a wall clock time, UTC; 197001 for times before 1970.
std::uint32_t month_of(std::int64_t wall_ns);

struct MonthTables;  // tables.hpp

class RowBuilder {
public:
    explicit RowBuilder(std::uint64_t batch);
    ~RowBuilder();

    void add_parcel(ByteView parcel);
    // Nonempty blocks in the order of insertion: points first, the transport's own rows last.
    std::vector<Block*> blocks();

    std::uint64_t points() const { return points_; }
    std::uint64_t refused_sections() const { return refused_sections_; }
    std::uint64_t refused_parcels() const { return refused_parcels_; }

private:
    struct Parcel;  // what the rows of one parcel share
    MonthTables& month(std::int64_t created_ns);
    Status add_section(Parcel& at, std::size_t index);
    void add_refused(Parcel& at, std::size_t index, const Error& why);
    Status add_frames(Parcel& at, ByteView body);
    Status add_tile(Parcel& at, MonthTables& tables, const parcel::FrameSection& section, const parcel::Tile& tile);
    Status add_scalars(Parcel& at, ByteView body);
    Status add_ledger(Parcel& at, ByteView body);
    Status add_episodes(Parcel& at, ByteView body);
    Status add_stats(Parcel& at, ByteView body);
    Status add_events(Parcel& at, ByteView body);
    Status add_producers(Parcel& at, ByteView body);
    Status add_gaps(Parcel& at, ByteView body);
    Status add_start(Parcel& at, ByteView body);
    void add_parcel_rows(Parcel& at);

    std::uint64_t batch_;
    std::map<std::uint32_t, std::unique_ptr<MonthTables>> months_;
    Bytes body_;    // of a compressed section
    Bytes planes_;  // of one tile
    std::uint64_t points_ = 0;
    std::uint64_t refused_sections_ = 0;
    std::uint64_t refused_parcels_ = 0;
};

}  // namespace tally::sink
