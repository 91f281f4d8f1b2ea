// SPDX-License-Identifier: Apache-2.0
// Case encode: intake fed directly, everything it does on, parcels dropped; against zstd 1 alone over the same byte planes.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "agent/base/clock.hpp"
#include "agent/parcel/parcel.hpp"
#include "agent/parcel/planes.hpp"
#include "agent/parcel/tile_codec.hpp"
#include "spool/spool.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/machine.hpp"
#include "tools/bench/stages.hpp"

namespace tally::bench {

namespace {

// Byte planes of the tiles that the records become, one buffer per tile.
std::vector<Bytes> planes_of(const std::vector<Bytes>& records, const Shape& shape, std::uint32_t steps) {
    const std::size_t vector_bytes = (std::size_t{shape.envs} * sizeof(float) + 7) / 8 * 8;
    std::vector<Bytes> out;
    Bytes values;
    for (const Bytes& record : records)
        for (std::uint32_t m = 0; m < shape.metrics; ++m)
            for (std::uint32_t e = 0; e < shape.envs; e += parcel::tile_envs_max) {
                const std::uint32_t items = std::min(parcel::tile_envs_max, shape.envs - e);
                values.resize(std::size_t{items} * steps * sizeof(float));
                for (std::uint32_t t = 0; t < steps; ++t) {
                    const std::uint8_t* at = record.data() + sizeof(ring::FrameBody) + (std::size_t{t} * shape.metrics + m) * vector_bytes + e * sizeof(float);
                    for (std::uint32_t i = 0; i < items; ++i)
                        std::memcpy(values.data() + (std::size_t{i} * steps + t) * sizeof(float), at + i * sizeof(float), sizeof(float));
                }
                out.emplace_back(values.size());
                parcel::split_planes(values.data(), sizeof(float), std::size_t{items} * steps, out.back().data());
            }
    return out;
}

struct Measured {
    double points_per_s = 0;
    double bytes_per_point = 0;
};

Measured zstd_alone(const std::vector<Bytes>& planes) {
    const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
    Bytes out;
    std::size_t raw = 0;
    std::size_t packed = 0;
    const double began = thread_cpu_seconds();
    for (const Bytes& p : planes) {
        if (out.size() < ZSTD_compressBound(p.size())) out.resize(ZSTD_compressBound(p.size()));
        packed += ZSTD_compressCCtx(context.get(), out.data(), out.size(), p.data(), p.size(), 1);
        raw += p.size();
    }
    const double points = static_cast<double>(raw) / sizeof(float);
    return {points / (thread_cpu_seconds() - began), static_cast<double>(packed) / points};
}

// What was cut goes into a spool as an agent would put it there, and is proven from it.
class Kept {
public:
    explicit Kept(const std::string& dir) : dir_(dir) {
        spool::Options options;
        options.dir = dir;
        auto opened = spool::Spool::open(options);
        if (opened) spool_ = std::move(*opened);
    }
    void take(intake::Batch& batch) {
        if (!spool_) return;
        const spool::Plan plan = spool_->plan();
        spool::Group group;
        group.number = plan.group;
        std::uint64_t next[lane_count] = {raw(plan.next[0]), raw(plan.next[1]), raw(plan.next[2])};
        for (intake::DraftParcel& p : batch.parcels) {
            const Seq seq{next[static_cast<std::size_t>(p.lane)]++};
            parcel::stamp(p.bytes, {spool_->uuid(), {spool_->start(), p.lane, seq}, plan.group});
            group.records.push_back({p.lane, seq, std::make_shared<const Bytes>(std::move(p.bytes))});
        }
        if (const auto done = spool_->append(group); !done || *done != spool::Append::ok || !spool_->drain()) failed_ = true;
    }
    std::string verdict() {
        if (!spool_ || failed_) return "the spool failed";
        spool_.reset();
        return prove_spool(dir_, EncodeStage::run);
    }

private:
    std::string dir_;
    std::unique_ptr<spool::Spool> spool_;
    bool failed_ = false;
};

Line measure(const Setting& setting, std::uint32_t steps) {
    const Shape shape = shape_of(setting.quick);
    const std::vector<Bytes> records = trace_records(shape, steps, setting.quick ? 2 : std::max(1U, 32U / steps));
    const std::uint64_t points = shape.points() * steps;
    Line line;
    line.shape = "T=" + std::to_string(steps);
    line.limit_name = "zstd 1 alone over the same byte planes, one core";
    const Measured limit = zstd_alone(planes_of(records, shape, steps));
    line.limit_per_s = limit.points_per_s;

    EncodeStage stage(shape);
    std::uint64_t bytes = 0;
    const auto count = [&](intake::Batch& batch) {
        for (const intake::DraftParcel& p : batch.parcels) bytes += p.bytes.size();
    };
    const std::int64_t began = monotonic_ns();
    const double cpu = thread_cpu_seconds();
    const auto until = began + static_cast<std::int64_t>(setting.seconds * 1e9);
    do {
        for (const Bytes& body : records) {
            stage.record(body, points, count);
            line.points += static_cast<double>(points);
        }
    } while (monotonic_ns() < until);
    line.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
    line.cpu_s = thread_cpu_seconds() - cpu;
    line.per_s = line.points / line.cpu_s;
    stage.finish(count);
    line.bytes_per_point = static_cast<double>(bytes) / line.points;
    line.more = {{"ns_per_point", line.cpu_s * 1e9 / line.points}, {"limit_bytes_per_point", limit.bytes_per_point}};

    EncodeStage again(shape);
    Kept kept(setting.dir + "/spool-" + std::to_string(steps));
    const auto keep = [&](intake::Batch& batch) { kept.take(batch); };
    for (const Bytes& body : records) again.record(body, points, keep);
    again.finish(keep);
    line.verdict = kept.verdict();
    return line;
}

}  // namespace

Lines encode(const Setting& setting) { return std::vector<Line>{measure(setting, 1), measure(setting, 16)}; }

}  // namespace tally::bench
