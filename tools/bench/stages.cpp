// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/stages.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "agent/base/clock.hpp"
#include "tools/bench/machine.hpp"

namespace tally::bench {

namespace {

constexpr std::uint64_t warm_steps = 96;  // a third of the carts has fallen once: the trace looks as it always will

Uuid uuid_of(std::uint8_t n) {
    Uuid out;
    out.bytes.fill(n);
    return out;
}

intake::RingInfo info_of(ring::RingKind kind, std::uint8_t number) {
    intake::RingInfo info;
    info.ring = uuid_of(number);
    info.kind = kind;
    info.opened_ns = wall_ns();
    info.producer = uuid_of(1);
    info.run = EncodeStage::run;
    info.project = "bench";
    info.producers_declared = 1;
    return info;
}

}  // namespace

Shape shape_of(bool quick) { return quick ? Shape{500, 20} : Shape{}; }

std::vector<Bytes> trace_records(const Shape& shape, std::uint32_t steps, std::uint32_t records) {
    load::Generator generator(load::Shape::rl, 1, shape.metrics, 0, shape.envs, Dtype::f32);
    const std::size_t vector_bytes = (std::size_t{shape.envs} * sizeof(float) + 7) / 8 * 8;
    std::vector<float> frame(shape.points());
    std::uint64_t step = 0;
    for (; step < warm_steps; ++step) generator.fill(step, frame.data());
    std::vector<Bytes> out(records);
    for (Bytes& body : out) {
        body.resize(sizeof(ring::FrameBody) + vector_bytes * shape.metrics * steps);
        const ring::FrameBody head{1, 0, shape.metrics, steps, static_cast<std::int64_t>(step), 1, 0, 0};
        std::memcpy(body.data(), &head, sizeof head);
        std::uint8_t* at = body.data() + sizeof head;
        for (std::uint32_t t = 0; t < steps; ++t) {
            generator.fill(step++, frame.data());
            for (std::uint32_t m = 0; m < shape.metrics; ++m, at += vector_bytes)
                std::memcpy(at, frame.data() + std::size_t{m} * shape.envs, shape.envs * sizeof(float));
        }
    }
    return out;
}

EncodeStage::EncodeStage(const Shape& shape) : intake_(intake::Options{}) {
    intake::RingInfo block = info_of(ring::RingKind::block, 3);
    block.block.block = 1;
    block.block.env_count = shape.envs;
    for (std::uint32_t m = 0; m < shape.metrics; ++m) {
        char name[16];
        std::snprintf(name, sizeof name, "m%02u", m);
        block.block.metrics.push_back({Dtype::f32, name});
    }
    const auto scalars = intake_.attach(info_of(ring::RingKind::scalar, 2), wall_ns());
    const auto frames = intake_.attach(block, wall_ns());
    TALLY_ASSERT(scalars && frames);
    scalars_ = scalars->handle;
    ring_ = frames->handle;
}

void EncodeStage::record(ByteView body, std::uint64_t points, const std::function<void(intake::Batch&)>& take) {
    ring::RecordHeader header{};
    header.bytes = static_cast<std::uint32_t>(sizeof header + body.size());
    header.kind = ring::RecordKind::frame;
    header.number = ++number_;
    header.points_total = points_ += points;
    header.time_ns = wall_ns();
    position_ += header.bytes;
    TALLY_ASSERT(intake_.record(ring_, header, body, position_));
    if (!intake_.batch_ready(monotonic_ns())) return;
    if (auto batch = intake_.cut(wall_ns())) take(*batch);
}

void EncodeStage::finish(const std::function<void(intake::Batch&)>& take) {
    const ring::CloseBody close{0, 2};
    ring::RecordHeader header{};
    header.bytes = sizeof header + sizeof close;
    header.kind = ring::RecordKind::close;
    header.number = 1;
    header.time_ns = wall_ns();
    TALLY_ASSERT(intake_.record(scalars_, header, ByteView(reinterpret_cast<const std::uint8_t*>(&close), sizeof close), header.bytes));
    intake_.end(ring_, parcel::ProducerEnd::finished, wall_ns());
    intake_.end(scalars_, parcel::ProducerEnd::finished, wall_ns());
    if (auto batch = intake_.cut(wall_ns())) take(*batch);
}

double generate_cost(const Shape& shape, bool quick) {
    load::Generator generator(load::Shape::rl, 1, shape.metrics, 0, shape.envs, Dtype::f32);
    std::vector<float> frame(shape.points());
    generator.fill(0, frame.data());
    const std::uint64_t frames = quick ? 2 : 24;
    const double began = thread_cpu_seconds();
    for (std::uint64_t i = 1; i <= frames; ++i) generator.fill(i, frame.data());
    return (thread_cpu_seconds() - began) / static_cast<double>(frames * shape.points());
}

double encode_cost(const Shape& shape, bool quick) {
    const std::vector<Bytes> records = trace_records(shape, 1, quick ? 2 : 12);
    EncodeStage stage(shape);
    std::uint64_t points = 0;
    const auto drop = [](intake::Batch&) {};
    stage.record(records[0], shape.points(), drop);
    const double began = thread_cpu_seconds();
    for (std::size_t i = 1; i < records.size(); ++i, points += shape.points()) stage.record(records[i], shape.points(), drop);
    stage.finish(drop);
    return (thread_cpu_seconds() - began) / static_cast<double>(points);
}

}  // namespace tally::bench
