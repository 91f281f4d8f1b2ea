// SPDX-License-Identifier: Apache-2.0
// Section 1, frames: head and tables here, tiles by tile_codec.cpp.
#include <algorithm>

#include "agent/parcel/fields.hpp"

namespace tally::parcel {

namespace {

constexpr std::size_t frame_fixed_bytes = 8 + 8 + 4 + 1 + 8 + 8 + 1 + 4;
constexpr std::size_t pad8(std::size_t n) { return (n + 7) & ~std::size_t{7}; }

void write_frame(ByteWriter& w, const Frame& f) {
    w.put(f.step_first);
    w.put(f.step_stride);
    w.put(f.steps);
    w.put(static_cast<std::uint8_t>(f.rl_step.given));
    w.put(f.rl_step.value);
    w.put(f.time_ns);
    w.put(static_cast<std::uint8_t>(f.rows_listed));
    w.put(static_cast<std::uint32_t>(f.rows.size()));
    write_column(w, f.rows);
}

// The last step must be a number, too.
bool steps_fit(const Frame& f) {
    std::int64_t last = 0;
    return f.steps >= 1 && f.step_stride >= 1 &&
           !__builtin_mul_overflow(static_cast<std::int64_t>(f.steps) - 1, f.step_stride, &last) &&
           !__builtin_add_overflow(f.step_first, last, &last);
}

Frame read_frame(FieldReader& in, std::uint32_t env_count) {
    Frame f;
    f.step_first = in.get<std::int64_t>();
    f.step_stride = in.get<std::int64_t>();
    f.steps = in.get<std::uint32_t>();
    f.rl_step.given = in.flag();
    f.rl_step.value = in.get<std::int64_t>();
    f.time_ns = in.get<std::int64_t>();
    f.rows_listed = in.flag();
    const std::uint32_t rows = in.count(sizeof(std::uint32_t));
    in.column(f.rows, rows);
    if (!in.ok()) return f;
    in.require(steps_fit(f), "steps of a frame");
    in.require(f.rows_listed || f.rows.empty(), "rows of a dense frame");
    in.require(std::is_sorted(f.rows.begin(), f.rows.end()), "order of a row list");
    in.require(f.rows.empty() || f.rows.back() < env_count, "environment of a row");
    return f;
}

bool items_fit(const TileHeader& h, const Frame& f, std::uint32_t env_count) {
    const std::uint64_t end = std::uint64_t{h.item_first} + h.items;
    if (h.items < 1 || h.items > tile_envs_max) return false;
    if (!f.rows_listed) return end <= env_count;
    return end <= f.rows.size() && f.rows[h.item_first] / tile_envs_max == f.rows[end - 1] / tile_envs_max;
}

bool steps_fit(const TileHeader& h, const Frame& f) {
    return h.steps >= 1 && h.steps <= tile_steps_max && std::uint64_t{h.step_offset} + h.steps <= f.steps;
}

void check_tile(FieldReader& in, const TileHeader& h, const FrameSection& s) {
    if (h.transform > static_cast<std::uint8_t>(Transform::zstd)) return in.refuse(Code::unsupported, "tile transform");
    if (h.frame >= s.frames.size() || h.metric >= s.metrics.size()) return in.refuse(Code::corrupt, "owner of a tile");
    const Frame& f = s.frames[h.frame];
    in.require(items_fit(h, f, s.env_count), "items of a tile");
    in.require(steps_fit(h, f), "steps of a tile");
}

Tile read_tile(FieldReader& in, const FrameSection& s) {
    Tile t;
    t.header = in.get<TileHeader>();
    if (in.ok()) check_tile(in, t.header, s);
    t.data = in.bytes(t.header.data_bytes);
    in.align(8);
    return t;
}

// Walks head and tables without keeping them. Position of the tile count.
std::size_t tiles_at(ByteView body) {
    FieldReader in(body);
    in.origin();
    in.bytes(12);
    in.metrics();
    const std::uint32_t frames = in.count(frame_fixed_bytes);
    for (std::uint32_t i = 0; i < frames; ++i) {
        in.bytes(frame_fixed_bytes - 4);
        in.bytes(std::size_t{in.get<std::uint32_t>()} * 4);
    }
    in.align(8);
    TALLY_ASSERT(in.ok());
    return in.at();
}

}  // namespace

void write_frames_head(const FrameSection& section, Bytes& out) {
    TALLY_ASSERT(out.size() % 8 == 0);
    ByteWriter w(out);
    write_origin(w, section.origin);
    w.put(section.block);
    w.put(section.env_first);
    w.put(section.env_count);
    write_metrics(w, section.metrics);
    w.put(static_cast<std::uint32_t>(section.frames.size()));
    for (const Frame& f : section.frames) write_frame(w, f);
    w.align(8);
    w.put(std::uint32_t{0});  // tiles: finish_frames() fills it in
    w.put(std::uint32_t{0});
}

void finish_frames(std::size_t section_at, Bytes& out) {
    const ByteView body = ByteView(out).subspan(section_at);
    const std::size_t count_at = tiles_at(body);
    std::uint32_t tiles = 0;
    for (std::size_t at = count_at + 8; at < body.size(); ++tiles) {
        TileHeader h;
        TALLY_ASSERT(body.size() - at >= sizeof h);
        std::memcpy(&h, body.data() + at, sizeof h);
        at += sizeof h + pad8(h.data_bytes);
    }
    std::memcpy(out.data() + section_at + count_at, &tiles, sizeof tiles);
}

Result<FrameSection> read_frames(ByteView body) {
    FieldReader in(body);
    FrameSection s;
    s.origin = in.origin();
    s.block = in.get<std::uint32_t>();
    s.env_first = in.get<std::uint32_t>();
    s.env_count = in.get<std::uint32_t>();
    in.require(std::uint64_t{s.env_first} + s.env_count <= std::uint64_t{UINT32_MAX} + 1, "environments of a block");
    s.metrics = in.metrics();
    const std::uint32_t frames = in.count(frame_fixed_bytes);
    s.frames.reserve(frames);
    for (std::uint32_t i = 0; i < frames && in.ok(); ++i) s.frames.push_back(read_frame(in, s.env_count));
    in.align(8);
    const std::uint32_t tiles = in.count(sizeof(TileHeader));
    in.get<std::uint32_t>();
    s.tiles.reserve(tiles);
    for (std::uint32_t i = 0; i < tiles && in.ok(); ++i) s.tiles.push_back(read_tile(in, s));
    TALLY_TRY(in.finish("frames section"));
    return s;
}

}  // namespace tally::parcel
