// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Encodes one tile: picks the transform, writes header, data and padding.
// Flow    intake -> TileEncoder -> body of a frames section; decode_tile() (sections.hpp) is the other way.
// Format  agent/parcel/FORMAT.md, "Tiles".
// Threads One thread per object.
// Owns    A compression context and two buffers that are reused: after the first tiles nothing is allocated but `out`.

#include <memory>

#include "agent/parcel/sections.hpp"

namespace tally::parcel {

class TileEncoder {
public:
    TileEncoder();
    ~TileEncoder();
    TileEncoder(TileEncoder&&) noexcept;
    TileEncoder& operator=(TileEncoder&&) noexcept;

    // `values`: items * steps values of the dtype, item-major. `where.transform` and `where.data_bytes` are set here.
    // Returns data bytes, without header and padding.
    std::size_t append_values(const TileHeader& where, Dtype dtype, ByteView values, Bytes& out);
    // The same from planes.
    std::size_t append_planes(const TileHeader& where, Dtype dtype, ByteView planes, Bytes& out);

private:
    struct Zstd;
    std::size_t append_split(const TileHeader& where, std::uint32_t width, ByteView planes, Bytes& out);

    std::unique_ptr<Zstd> zstd_;
    Bytes planes_;
    Bytes packed_;
};

}  // namespace tally::parcel
