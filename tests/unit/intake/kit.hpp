// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Makes ring records, and reads batches back into points, ledger sums and rows, to compare with a model.

#include <functional>
#include <map>
#include <random>
#include <tuple>

#include "agent/intake/intake.hpp"

namespace tally::intake::kit {

inline constexpr Dtype all_dtypes[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64, Dtype::i8,  Dtype::i16, Dtype::i32,
                                       Dtype::i64, Dtype::u8,   Dtype::u16, Dtype::u32, Dtype::u64, Dtype::boolean};

struct SeriesKey {
    Uuid producer;
    std::uint32_t attempt = 0;
    Dtype dtype = Dtype::f32;
    std::string metric;
    auto operator<=>(const SeriesKey&) const = default;
};
struct PointKey {
    SeriesKey series;
    std::uint32_t env = 0;
    std::int64_t step = 0;
    auto operator<=>(const PointKey&) const = default;
};
struct Seen {
    std::uint64_t bits = 0;
    std::int64_t time_ns = 0;
    parcel::MaybeStep rl_step;
    bool operator==(const Seen&) const = default;
};
using Points = std::map<PointKey, std::vector<Seen>>;  // repeats in their order
struct Sum {
    std::uint64_t points = 0;
    std::uint64_t hash = 0;
    std::uint64_t when = 0;
    bool operator==(const Sum&) const = default;
};
using Sums = std::map<SeriesKey, Sum>;
using EnvPoints = std::map<std::pair<SeriesKey, std::uint32_t>, std::uint64_t>;
struct StatsOf {
    SeriesKey series;
    parcel::StepStats row;
};

// Everything a list of batches says.
struct Content {
    Points points;
    Sums ledger;
    EnvPoints listed;
    std::vector<StatsOf> stats;
    std::vector<std::pair<parcel::Origin, parcel::EpisodeHeader>> episodes;
    std::vector<std::pair<parcel::Origin, parcel::Event>> events;
    std::vector<std::pair<parcel::Origin, parcel::ProducerRecord>> producers;
    std::vector<std::pair<parcel::Origin, parcel::Gap>> gaps;
    std::vector<parcel::StartSection> starts;
    std::uint64_t parcels[lane_count] = {};
    std::size_t largest_parcel = 0;
    std::map<Bytes, Bytes> cursors;  // applied in order

    // Checks the batch itself (live first, sizes, points) with doctest assertions.
    void add(const Batch& batch);
};
// What the ledger should say of these points.
Sums sums_of(const Points& points, std::string_view run);

RingInfo scalar_info(std::uint8_t ring = 1, std::uint8_t producer = 1);
RingInfo block_info(std::vector<parcel::Metric> metrics, std::uint32_t env_first, std::uint32_t env_count,
                    std::uint8_t ring = 2, std::uint8_t producer = 1);
Uuid uuid(std::uint8_t n);

// Feeds one ring as its consumer would.
class Feed {
public:
    Feed(Intake& intake, const RingInfo& info);
    Status give(ring::RecordKind kind, ByteView body, std::uint64_t points);
    RingHandle handle() const { return handle_; }
    const std::optional<RingCursor>& resume() const { return resume_; }

    ring::RecordHeader header{};  // number, points_total and kind are kept here; set the rest freely
    std::uint64_t position = 0;

private:
    Intake& intake_;
    RingHandle handle_{};
    std::optional<RingCursor> resume_;
};

struct FrameSpec {
    std::uint32_t metric_first = 0;
    std::uint32_t metrics = 0;  // 0: all from metric_first
    std::int64_t step_first = 0;
    std::int64_t stride = 1;
    std::uint32_t steps = 1;
    bool rows_listed = false;
    std::vector<std::uint32_t> rows;
};
// bits of (metric of the block, position in the vector, step of the frame)
using BitsOf = std::function<std::uint64_t(std::uint32_t, std::uint32_t, std::uint32_t)>;
Bytes frame_body(const Block& block, const FrameSpec& spec, const BitsOf& bits);
std::uint64_t frame_points(const Block& block, const FrameSpec& spec);
// Adds what that frame means to the model.
void model_frame(Points& points, const RingInfo& info, const FrameSpec& spec, const BitsOf& bits,
                 const ring::RecordHeader& header);
Bytes scalar_body(std::int64_t step, const std::vector<std::pair<std::uint32_t, std::uint64_t>>& values);
Bytes episode_body(std::int64_t step, std::int64_t stride, const std::vector<parcel::EpisodeHeader>& episodes);
Bytes event_body(std::string_view kind, std::string_view key, std::string_view text);

// Random bits that are legal for the dtype, with many special values among them.
std::uint64_t some_bits(Dtype dtype, std::mt19937_64& rng);

}  // namespace tally::intake::kit
