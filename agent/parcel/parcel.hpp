// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Building and opening whole parcels.
// Flow    intake -> ParcelBuilder -> (spool sequencer) stamp() -> spool -> wire -> receiver: peek() -> landing ->
//         sink: ParcelView.
// Owns    ParcelView borrows the bytes it was opened on.
// Errors  peek/open: truncated, corrupt (magic, sizes, XXH3), unsupported (version), too_big.

#include <optional>

#include "agent/parcel/sections.hpp"

namespace tally::parcel {

struct Identity {
    Uuid spool;
    ParcelId id;
    GroupNo group{};
};

class ParcelBuilder {
public:
    // Body bytes as write_*() made them. Compresses with zstd 1 when `compress` and it pays.
    void add(SectionKind kind, ByteView body, bool compress);
    std::size_t bytes() const;  // so far, headers included
    bool empty() const { return entries_.empty(); }
    std::size_t sections() const { return entries_.size(); }
    // Unstamped parcel: spool, start, seq, group and xxh3 are zero. The builder is empty afterwards.
    Bytes finish(Lane lane, std::uint64_t points, std::int64_t created_ns);

private:
    std::vector<SectionEntry> entries_;
    Bytes bodies_;
};

// Fills identity and checksum in place; called by the one sequencer just before the parcel is spooled.
void stamp(Bytes& parcel, const Identity& identity);

// Header and section table, checksum verified: all a receiver needs.
struct Peeked {
    ParcelHeader header{};
    Identity identity;
    std::vector<SectionEntry> sections;
};
Result<Peeked> peek(ByteView bytes);

class ParcelView {
public:
    static Result<ParcelView> open(ByteView bytes);
    const ParcelHeader& header() const { return peeked_.header; }
    const Identity& identity() const { return peeked_.identity; }
    const std::vector<SectionEntry>& sections() const { return peeked_.sections; }
    // The raw body of section i: a view into the parcel, or into `scratch` when it was compressed.
    Result<ByteView> body(std::size_t i, Bytes& scratch) const;

private:
    ByteView bytes_;
    Peeked peeked_;
};

}  // namespace tally::parcel
