// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/frame_encoder.hpp"

#include <algorithm>

#include "agent/base/hash.hpp"
#include "agent/intake/hash_kernel.hpp"
#include "agent/intake/stats_kernel.hpp"
#include "agent/parcel/row_hash.hpp"

namespace tally::intake {

namespace {

constexpr std::uint64_t stats_rows_always = 65536;
constexpr std::uint64_t points_per_stats_row = 64;

template <class T>
void scatter_as(const std::uint8_t* in, std::size_t n, std::size_t steps, std::uint8_t* out) {
    for (std::size_t i = 0; i < n; ++i) std::memcpy(out + i * steps * sizeof(T), in + i * sizeof(T), sizeof(T));
}

// Step t of n items into item-major order; `out` points at item 0, step t.
void scatter(const std::uint8_t* in, std::uint32_t width, std::size_t n, std::size_t steps, std::uint8_t* out) {
    switch (width) {
        case 1: return scatter_as<std::uint8_t>(in, n, steps, out);
        case 2: return scatter_as<std::uint16_t>(in, n, steps, out);
        case 4: return scatter_as<std::uint32_t>(in, n, steps, out);
        default: return scatter_as<std::uint64_t>(in, n, steps, out);
    }
}

}  // namespace

StatsAdded FrameEncoder::encode(const FrameTarget& to, const FrameRecord& record, std::int64_t time_ns,
                                parcel::MaybeStep rl_step) {
    if (record.n == 0) return {};
    frame_.step_first = record.body.step_first;
    frame_.step_stride = record.body.step_stride;
    frame_.steps = record.body.steps;
    frame_.rl_step = rl_step;
    frame_.time_ns = time_ns;
    frame_.rows_listed = !record.dense();
    frame_.rows.clear();
    live_ = &drafts_.origin(to.origin);
    if (record.dense())
        dense(to, record);
    else
        rows(to, record);
    return stats(to, record);
}

void FrameEncoder::dense(const FrameTarget& to, const FrameRecord& record) {
    list_id_ = 0;
    list_.clear();
    to.draft.frame(frame_);
    for (std::uint32_t m = 0; m < record.body.metrics; ++m) {
        for (std::uint32_t t = 0; t < record.body.steps; t += parcel::tile_steps_max) {
            const std::uint32_t steps = std::min(parcel::tile_steps_max, record.body.steps - t);
            for (std::uint32_t e = 0; e < record.n; e += parcel::tile_envs_max)
                dense_tile(to, record, {m, e, std::min(parcel::tile_envs_max, record.n - e), t, steps});
        }
    }
}

void FrameEncoder::dense_tile(const FrameTarget& to, const FrameRecord& record, const Slice& s) {
    const std::uint32_t metric = record.body.metric_first + s.metric;
    const Dtype dtype = to.block.metrics[metric].dtype;
    const std::size_t width = dtype_width(dtype);
    const std::size_t bytes = std::size_t{s.items} * s.steps * width;
    const std::uint32_t env = to.block.env_first + s.item_first;
    const auto vector = [&](std::uint32_t t) { return record.vector(s.metric, s.step_offset + t) + s.item_first * width; };
    parcel::LedgerEntry entry;
    entry.env_first = env;
    entry.env_count = s.items;
    for (std::uint32_t t = 0; t < s.steps; ++t)
        entry.hash += hash_dense(vector(t), dtype, s.items, to.seeds[metric], env, record.step(s.step_offset + t));
    if (s.steps == 1) return put(to, record, s, ByteView(vector(0), bytes), entry);

    if (values_.size() < bytes) values_.resize(bytes);
    constexpr std::uint32_t strip = 64;  // 64 items x 64 steps stay in the first-level cache
    for (std::uint32_t i = 0; i < s.items; i += strip) {
        const std::uint32_t here = std::min(strip, s.items - i);
        for (std::uint32_t t = 0; t < s.steps; ++t)
            scatter(vector(t) + i * width, static_cast<std::uint32_t>(width), here, s.steps,
                    values_.data() + (std::size_t{i} * s.steps + t) * width);
    }
    put(to, record, s, ByteView(values_.data(), bytes), entry);
}

// Each piece is a frame of its own: its list is as short as its tiles need it, whatever the record's length is.
void FrameEncoder::rows(const FrameTarget& to, const FrameRecord& record) {
    row_list_.sort(record.rows);
    for (std::size_t first = 0; first < row_list_.size();) {
        const std::size_t end = row_list_.piece_end(first);
        const auto piece = row_list_.envs().subspan(first, end - first);
        frame_.rows.assign(piece.begin(), piece.end());
        to.draft.frame(frame_);
        for (std::uint32_t t = 0; t < record.body.steps; t += parcel::tile_steps_max) {
            const std::uint32_t steps = std::min(parcel::tile_steps_max, record.body.steps - t);
            list_ = row_list_.counts(first, end, to.block.env_first, steps);
            list_id_ = ++lists_;
            for (std::uint32_t m = 0; m < record.body.metrics; ++m)
                rows_tile(to, record, {m, 0, static_cast<std::uint32_t>(end - first), t, steps}, first);
        }
        first = end;
    }
}

void FrameEncoder::rows_tile(const FrameTarget& to, const FrameRecord& record, const Slice& s, std::size_t row_first) {
    const std::uint32_t metric = record.body.metric_first + s.metric;
    const Dtype dtype = to.block.metrics[metric].dtype;
    const std::uint32_t width = dtype_width(dtype);
    const std::size_t step_bytes = std::size_t{s.items} * width;
    if (gathered_.size() < step_bytes) gathered_.resize(step_bytes);
    if (values_.size() < step_bytes * s.steps) values_.resize(step_bytes * s.steps);
    const std::uint32_t* envs = row_list_.envs().data() + row_first;
    const std::uint32_t range_first = envs[0] / parcel::tile_envs_max * parcel::tile_envs_max;
    parcel::LedgerEntry entry;
    entry.env_first = to.block.env_first + range_first;
    entry.env_count = std::min(parcel::tile_envs_max, to.block.env_count - range_first);
    for (std::uint32_t t = 0; t < s.steps; ++t) {
        std::uint8_t* slice = s.steps == 1 ? values_.data() : gathered_.data();
        row_list_.gather(record.vector(s.metric, s.step_offset + t), width, row_first, s.items, slice);
        entry.hash += hash_rows(slice, dtype, envs, s.items, to.seeds[metric], to.block.env_first,
                                record.step(s.step_offset + t));
        if (s.steps != 1) scatter(slice, width, s.items, s.steps, values_.data() + std::size_t{t} * width);
    }
    put(to, record, s, ByteView(values_.data(), step_bytes * s.steps), entry);
}

void FrameEncoder::put(const FrameTarget& to, const FrameRecord& record, const Slice& s, ByteView values,
                       const parcel::LedgerEntry& tile) {
    const std::uint32_t metric = record.body.metric_first + s.metric;
    parcel::LedgerEntry entry = tile;
    entry.step_first = record.step(s.step_offset);
    entry.step_last = record.step(s.step_offset + s.steps - 1);
    entry.points = std::uint64_t{s.items} * s.steps;
    entry.when = s.items * when_weights(entry.step_first, record.body.step_stride, s.steps) *
                 when_hash(to.seeds[metric], frame_.time_ns, frame_.rl_step.given, frame_.rl_step.value);
    if (to.draft.empty()) to.draft.begin(to.origin, to.block);
    to.draft.tile(encoder_, to.block, metric, s.item_first, s.items, s.step_offset, s.steps, values);
    if (to.draft.bytes() >= options_.parcel_bytes_target) drafts_.add_frames(to.draft);
    live_->ledger(to.block.metrics[metric], std::move(entry), list_id_, list_);
    drafts_.check_live(*live_);
}

parcel::StepStats FrameEncoder::stats_row(const FrameTarget& to, const FrameRecord& record, std::uint32_t metric,
                                          std::uint32_t t) {
    const Dtype dtype = to.block.metrics[record.body.metric_first + metric].dtype;
    const std::uint8_t* values = record.vector(metric, t);
    const Summary sum = summarize(values, dtype, record.n);
    parcel::StepStats row;
    row.env_first = to.block.env_first;
    row.env_count = to.block.env_count;
    row.step = record.step(t);
    row.time_ns = frame_.time_ns;
    row.count = sum.count;
    row.nonfinite = sum.nonfinite;
    row.min = sum.min;
    row.max = sum.max;
    row.sum = sum.sum;
    row.sum_squares = sum.sum_squares;
    if (!options_.histogram || to.block.env_count <= 1) return row;
    histogram_.add(values, dtype, record.n);
    histogram_.take(row.bins, row.bin_counts);
    return row;
}

StatsAdded FrameEncoder::stats(const FrameTarget& to, const FrameRecord& record) {
    const std::uint64_t rows = std::uint64_t{record.body.metrics} * record.body.steps;
    if (rows > std::max(stats_rows_always, record.points() / points_per_stats_row)) return {};
    std::uint64_t hash = 0;
    for (std::uint32_t m = 0; m < record.body.metrics; ++m) {
        for (std::uint32_t t = 0; t < record.body.steps; ++t) {
            const std::uint32_t metric = record.body.metric_first + m;
            parcel::StepStats row = stats_row(to, record, m, t);
            hash += parcel::row_hash(to.seeds[metric], row);
            live_->stats(to.block.metrics[metric], std::move(row));
            drafts_.check_live(*live_);
        }
    }
    return {rows, hash};
}

}  // namespace tally::intake
