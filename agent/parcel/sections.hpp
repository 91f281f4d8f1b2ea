// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The sections of a parcel, decoded: what intake fills and what a sink reads.
// Flow    intake -> write_*() -> ParcelBuilder; ParcelView::body() -> read_*() -> sink, reconcile.
// Format  agent/parcel/FORMAT.md. All texts are checked UTF-8; counts are bounded by the bytes at hand.
// Errors  read_*: truncated, corrupt, too_big, unsupported; nothing of the section is returned then.
// Threads Values; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/base/result.hpp"
#include "agent/base/types.hpp"
#include "agent/parcel/format.hpp"

namespace tally::parcel {

// Whose section this is. Empty run only in `start` and in gaps that belong to no run.
struct Origin {
    std::string run;
    std::string project;
    Uuid producer;
    std::uint32_t attempt = 0;
    std::int64_t run_created_ns = 0;  // decides the partition (month) in the store

    bool operator==(const Origin&) const = default;
};

struct Metric {
    Dtype dtype = Dtype::f32;
    std::string name;
    bool operator==(const Metric&) const = default;
};

struct MaybeStep {  // rl_step: given or null
    bool given = false;
    std::int64_t value = 0;
    bool operator==(const MaybeStep&) const = default;
};

// ---- frames --------------------------------------------------------------------------------------------------

struct Frame {
    std::int64_t step_first = 0;
    std::int64_t step_stride = 1;
    std::uint32_t steps = 1;
    MaybeStep rl_step;
    std::int64_t time_ns = 0;
    bool rows_listed = false;
    std::vector<std::uint32_t> rows;  // environments relative to env_first, sorted, repeats allowed
};

struct Tile {
    TileHeader header{};
    ByteView data;  // into the section body
};

struct FrameSection {
    Origin origin;
    std::uint32_t block = 0;
    std::uint32_t env_first = 0;
    std::uint32_t env_count = 0;
    std::vector<Metric> metrics;
    std::vector<Frame> frames;
    std::vector<Tile> tiles;
};

// Header and tables only; the encoder appends tiles behind with append_tile.
void write_frames_head(const FrameSection& section, Bytes& out);
// `planes`: width planes of items * steps bytes. Picks the transform. Returns encoded data bytes.
std::size_t append_tile(const TileHeader& where, Dtype dtype, ByteView planes, Bytes& out);
// After the last tile.
void finish_frames(std::size_t section_at, Bytes& out);
Result<FrameSection> read_frames(ByteView body);
// Planes of a tile: dtype width * items * steps bytes appended to `out`.
Status decode_tile(const Tile& tile, Dtype dtype, Bytes& out);

// ---- scalars -------------------------------------------------------------------------------------------------

struct ScalarSeries {
    Metric metric;
    std::vector<std::int64_t> steps;
    std::vector<std::int64_t> times_ns;
    std::vector<MaybeStep> rl_steps;
    std::vector<std::uint64_t> bits;  // all four: same length, in the order of logging
};
struct ScalarSection {
    Origin origin;
    std::vector<ScalarSeries> series;
};
void write_scalars(const ScalarSection& section, Bytes& out);
Result<ScalarSection> read_scalars(ByteView body);

// ---- live lane -----------------------------------------------------------------------------------------------

struct EnvCount {
    std::uint32_t env = 0;
    std::uint32_t points = 0;
    bool operator==(const EnvCount&) const = default;
};
// What was counted at the source for one tile (or one scalar series of one parcel: env 0, envs 1).
struct LedgerEntry {
    std::uint32_t metric = 0;  // index in the section's metrics
    std::uint32_t env_first = 0;  // absolute
    std::uint32_t env_count = 0;  // width of the range
    std::int64_t step_first = 0;  // lowest
    std::int64_t step_last = 0;   // highest
    std::uint64_t points = 0;
    std::uint64_t hash = 0;            // H
    std::uint64_t when = 0;            // W
    std::vector<EnvCount> env_points;  // only for row-list frames, absolute environments
    bool same_list = false;  // for write_ledger: env_points is that of the entry before, and left empty here
};
struct LedgerSection {
    Origin origin;
    std::vector<Metric> metrics;
    std::vector<LedgerEntry> entries;
};
void write_ledger(const LedgerSection& section, Bytes& out);
Result<LedgerSection> read_ledger(ByteView body);

struct EpisodeHeader {
    std::uint32_t env = 0;
    std::int64_t episode = 0;
    std::int64_t step_first = 0;
    std::int64_t step_last = 0;
    std::uint64_t points_expected = 0;  // per metric
    double ret = 0;
    std::int64_t length = 0;
};
struct EpisodeSection {
    Origin origin;
    std::vector<EpisodeHeader> episodes;
};
void write_episodes(const EpisodeSection& section, Bytes& out);
Result<EpisodeSection> read_episodes(ByteView body);

struct StepStats {
    std::uint32_t metric = 0;
    std::uint32_t env_first = 0;
    std::uint32_t env_count = 0;
    std::int64_t step = 0;
    std::int64_t time_ns = 0;
    std::uint64_t count = 0;
    std::uint64_t nonfinite = 0;
    double min = 0;  // of the finite values; 0 when there is none
    double max = 0;
    double sum = 0;
    double sum_squares = 0;
    std::vector<std::uint16_t> bins;       // top 16 bits of the value as f32, ascending; empty: no histogram
    std::vector<std::uint32_t> bin_counts;  // same length
};
struct StatsSection {
    Origin origin;
    std::vector<Metric> metrics;
    std::vector<StepStats> stats;
};
void write_stats(const StatsSection& section, Bytes& out);
Result<StatsSection> read_stats(ByteView body);

struct Event {
    std::int64_t time_ns = 0;
    std::string kind;
    std::string key;
    std::string text;
};
struct EventSection {
    Origin origin;
    std::vector<Event> events;
};
void write_events(const EventSection& section, Bytes& out);
Result<EventSection> read_events(ByteView body);

enum class ProducerWhat : std::uint8_t { opened = 1, rewound = 2, closed = 3, heartbeat = 4, reopened = 5 };
enum class ProducerEnd : std::uint8_t { none = 0, finished = 1, died = 2, lost = 3 };

// Totals of one ring, cumulative since the ring was made, as far as committed.
struct RingTotals {
    Uuid ring;
    std::uint32_t block = 0;  // 0: scalars
    std::uint64_t records = 0;
    std::uint64_t points = 0;
    std::uint64_t dropped_points = 0;
    std::uint64_t episodes = 0;
    std::uint64_t events = 0;
    std::uint64_t stats = 0;
    std::uint64_t episodes_hash = 0;  // sums of row hashes
    std::uint64_t events_hash = 0;
    std::uint64_t stats_hash = 0;
};
struct ProducerRecord {
    ProducerWhat what = ProducerWhat::opened;
    ProducerEnd end = ProducerEnd::none;
    std::uint64_t number = 0;  // grows with every record of one producer, whatever the wall clock does; orders them
    std::int64_t time_ns = 0;
    std::uint32_t pid = 0;
    std::uint32_t producers_declared = 0;
    std::int64_t fork_step = INT64_MAX;
    std::int32_t exit_code = 0;
    std::string role;
    std::string host;
    std::string labels;     // JSON object
    std::string continues;  // UUID text or empty
    std::string name;       // display name of the run
    std::vector<RingTotals> totals;  // of `closed` (and heartbeat, so far)
};
struct ProducerSection {
    Origin origin;
    std::vector<ProducerRecord> records;
};
void write_producers(const ProducerSection& section, Bytes& out);
Result<ProducerSection> read_producers(ByteView body);

// A declared loss. `lane_known` = false where damage made the parcel range unknowable.
struct Gap {
    std::int64_t time_ns = 0;
    std::uint32_t block = 0;
    std::int64_t step_first = 0;
    std::int64_t step_last = 0;
    std::uint64_t points = 0;  // 0: unknown
    std::string reason;        // ring_full, record_too_big, registry_full, ring_corrupt, spool_older, spool_damage, budget
    Uuid spool;
    bool lane_known = false;
    StartId start{};
    Lane lane = Lane::bulk;
    std::uint64_t seq_first = 0;
    std::uint64_t seq_last = 0;
};
struct GapSection {
    Origin origin;
    std::vector<Gap> gaps;
};
void write_gaps(const GapSection& section, Bytes& out);
Result<GapSection> read_gaps(ByteView body);

// First live parcel of every start: how the lives of the spool ended that may not have been told of yet, oldest first.
struct EndedLife {
    StartId start{};
    std::uint64_t group = 0;                       // its last committed group
    std::uint64_t seq[lane_count] = {0, 0, 0};     // its last committed sequence per lane
};
struct StartSection {
    static constexpr std::uint32_t ended_max = 4096;
    Origin origin;  // run empty
    std::string version;
    std::string host;
    std::vector<EndedLife> ended;  // the last one is the life before; empty: the spool's first
};
void write_start(const StartSection& section, Bytes& out);
Result<StartSection> read_start(ByteView body);

}  // namespace tally::parcel
