// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    One filled section of each kind, for round trips, flips and golden bytes. Deterministic.

#include "agent/parcel/parcel.hpp"
#include "agent/parcel/tile_codec.hpp"

namespace tally::parcel::samples {

inline Uuid uuid(std::uint8_t seed) {
    Uuid u;
    for (std::size_t i = 0; i < 16; ++i) u.bytes[i] = static_cast<std::uint8_t>(seed + i);
    return u;
}

inline Origin origin() { return {"run-1", "ant", uuid(0x10), 2, 1'700'000'000'000'000'000}; }

// Two dense frames (one of 3 steps) and one with rows; tiles by hand: constant and raw, no zstd, so that the bytes do not
// depend on the library.
inline Bytes frames_body() {
    FrameSection s;
    s.origin = origin();
    s.block = 1;
    s.env_first = 100;
    s.env_count = 5;
    s.metrics = {{Dtype::f32, "reward"}, {Dtype::u8, "action"}};
    Frame dense;
    dense.step_first = 7;
    dense.time_ns = 1'700'000'000'000'000'123;
    dense.rl_step = {true, 3};
    Frame steps = dense;
    steps.step_first = 8;
    steps.step_stride = 2;
    steps.steps = 3;
    steps.rl_step = {};
    Frame rows = dense;
    rows.rows_listed = true;
    rows.rows = {0, 2, 2, 4};
    s.frames = {dense, steps, rows};
    Bytes out;
    write_frames_head(s, out);
    TileEncoder encoder;
    const float reward[5] = {1.5F, -0.0F, 2.5F, 3.5F, 4.5F};
    const auto* raw = reinterpret_cast<const std::uint8_t*>(reward);
    encoder.append_values({0, 0, 0, 0, 0, 5, 0, 1, 0, 0}, Dtype::f32, {raw, 20}, out);
    const Bytes actions(15, 3);
    encoder.append_values({1, 1, 0, 0, 0, 5, 0, 3, 0, 0}, Dtype::u8, actions, out);
    encoder.append_values({2, 0, 0, 0, 0, 4, 0, 1, 0, 0}, Dtype::f32, {raw, 16}, out);
    finish_frames(0, out);
    return out;
}

inline ScalarSection scalars() {
    ScalarSection s{origin(), {}};
    s.series.push_back({{Dtype::f32, "loss"}, {7, 8}, {10, 20}, {{true, 1}, {}}, {0x3fc00000, 0x7fc00001}});
    s.series.push_back({{Dtype::boolean, "done"}, {9}, {30}, {{}}, {1}});
    return s;
}

inline LedgerSection ledger() {
    LedgerSection s{origin(), {{Dtype::f32, "reward"}, {Dtype::u8, "action"}}, {}};
    LedgerEntry dense;
    dense.env_first = 100;
    dense.env_count = 5;
    dense.step_first = dense.step_last = 7;
    dense.points = 5;
    dense.hash = 0x0123456789abcdef;
    dense.when = 0xfedcba9876543210;
    LedgerEntry rows = dense;
    rows.points = 4;
    rows.env_points = {{100, 1}, {102, 2}, {104, 1}};
    LedgerEntry again = rows;
    again.metric = 1;
    s.entries = {dense, rows, again};
    return s;
}

inline EpisodeSection episodes() { return {origin(), {{3, 1, 0, 63, 64, 12.5, 64}, {4, -1, 5, 5, 0, -0.0, 0}}}; }

inline StatsSection stats() {
    StatsSection s{origin(), {{Dtype::f32, "reward"}}, {}};
    s.stats.push_back({0, 100, 5, 7, 99, 5, 1, -1.5, 4.5, 10, 30, {0x3f80, 0x3fc0, 0xbfc0}, {1, 2, 1}});
    s.stats.push_back({0, 100, 1, 8, 99, 1, 1, 0, 0, 0, 0, {}, {}});
    return s;
}

inline EventSection events() { return {origin(), {{5, "note", "k", "gr\xC3\xBC\xC3\x9F"}, {6, "config", "", "{}"}}}; }

inline ProducerSection producers() {
    ProducerRecord opened{ProducerWhat::opened, ProducerEnd::none, 11, 1, 42, 8, INT64_MAX, 0, "0", "host", "{}", "", "name", {}};
    ProducerRecord closed{ProducerWhat::closed, ProducerEnd::died, 12, 2, 42, 8, 64, -9, "0", "host", "{}",
                          uuid(9).text(), "name", {{uuid(1), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}};
    return {origin(), {opened, closed}};
}

inline GapSection gaps() {
    Gap known{1, 2, -3, 4, 5, "ring_full", uuid(3), true, StartId{9}, Lane::bulk, 10, 12};
    Gap unknown;
    unknown.reason = "spool_damage";
    return {origin(), {known, unknown}};
}

inline StartSection start() {
    StartSection s;
    s.ended = {{StartId{76}, 4, {4, 0, 0}}, {StartId{77}, 5, {6, 7, 0}}};
    s.version = "0.1.0";
    s.host = "gpu-1";
    return s;
}

struct Named {
    const char* name;
    SectionKind kind;
    Lane lane;
    Bytes body;
};

inline std::vector<Named> bodies() {
    const auto of = [](auto write, const auto& section) {
        Bytes out;
        write(section, out);
        return out;
    };
    return {{"frames", SectionKind::frames, Lane::bulk, frames_body()},
            {"scalars", SectionKind::scalars, Lane::bulk, of(write_scalars, scalars())},
            {"ledger", SectionKind::ledger, Lane::live, of(write_ledger, ledger())},
            {"episodes", SectionKind::episodes, Lane::live, of(write_episodes, episodes())},
            {"stats", SectionKind::stats, Lane::live, of(write_stats, stats())},
            {"events", SectionKind::events, Lane::live, of(write_events, events())},
            {"producers", SectionKind::producers, Lane::live, of(write_producers, producers())},
            {"gaps", SectionKind::gaps, Lane::live, of(write_gaps, gaps())},
            {"start", SectionKind::start, Lane::live, of(write_start, start())}};
}

inline Identity identity(Lane lane) { return {uuid(0xA0), {StartId{0x1122334455667788}, lane, Seq{3}}, GroupNo{2}}; }

inline Bytes parcel_of(const Named& section) {
    ParcelBuilder builder;
    builder.add(section.kind, section.body, false);
    Bytes out = builder.finish(section.lane, 5, 1'700'000'000'000'000'000);
    stamp(out, identity(section.lane));
    return out;
}

}  // namespace tally::parcel::samples
