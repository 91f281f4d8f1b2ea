// SPDX-License-Identifier: Apache-2.0
#include "agent/ring/validate.hpp"

#include <cstring>

namespace tally::ring {

namespace {

constexpr std::uint64_t pad8(std::uint64_t n) { return (n + 7) & ~std::uint64_t{7}; }

template <class T>
T read_at(ByteView body, std::uint64_t at) {
    T value;
    std::memcpy(&value, body.data() + at, sizeof(T));
    return value;
}

// The record's length is a multiple of 8, its content need not be.
bool length_fits(ByteView body, std::uint64_t content) { return body.size() == pad8(content); }

bool steps_fit(const FrameBody& f) {
    if (f.steps == 0 || f.step_stride < 1 || (f.steps == 1 && f.step_stride != 1)) return false;
    std::int64_t span = 0;
    std::int64_t last = 0;
    return !__builtin_mul_overflow(static_cast<std::int64_t>(f.steps) - 1, f.step_stride, &span) &&
           !__builtin_add_overflow(f.step_first, span, &last);
}

// Bytes of one step's vectors; at most 65535 metrics x (2^30 x 8) bytes, so 64 bits hold it.
std::uint64_t step_bytes(const FrameBody& f, const BlockInfo& block, std::uint32_t n) {
    std::uint64_t bytes = 0;
    for (std::uint32_t m = 0; m < f.metrics; ++m)
        bytes += pad8(std::uint64_t{n} * dtype_width(block.metrics[f.metric_first + m].dtype));
    return bytes;
}

Result<std::uint64_t> check_frame(ByteView body, const Registry& registry) {
    if (!registry.block()) return fail(Code::corrupt, "frame in a ring without a block");
    const BlockInfo& block = *registry.block();
    if (body.size() < sizeof(FrameBody)) return fail(Code::corrupt, "frame body");
    const auto f = read_at<FrameBody>(body, 0);
    if (f.block != block.block) return fail(Code::corrupt, "frame of another block", f.block);
    if (f.metrics == 0 || f.metric_first >= block.metrics.size() || f.metrics > block.metrics.size() - f.metric_first)
        return fail(Code::corrupt, "metrics of a frame", f.metrics);
    if (!steps_fit(f)) return fail(Code::corrupt, "steps of a frame", f.steps);
    if (f.rows_listed > 1 || (f.rows_listed == 0 && f.rows != 0)) return fail(Code::corrupt, "rows of a frame", f.rows);
    const FrameShape shape = frame_shape(f, block);
    std::uint64_t values = 0;
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(step_bytes(f, block, shape.n), std::uint64_t{f.steps}, &values) ||
        __builtin_add_overflow(values, shape.values_at, &total) || total != body.size())
        return fail(Code::corrupt, "length of a frame", body.size());
    std::uint32_t highest = 0;
    for (std::uint32_t i = 0; i < f.rows; ++i) {
        const auto row = read_at<std::uint32_t>(body, sizeof(FrameBody) + std::uint64_t{i} * 4);
        highest = row > highest ? row : highest;
    }
    if (f.rows != 0 && highest >= block.env_count) return fail(Code::corrupt, "environment of a row", highest);
    return std::uint64_t{f.steps} * f.metrics * shape.n;
}

Result<std::uint64_t> check_scalars(ByteView body, const Registry& registry) {
    if (body.size() < sizeof(ScalarBody)) return fail(Code::corrupt, "scalar body");
    const auto s = read_at<ScalarBody>(body, 0);
    if (s.reserved != 0 || !length_fits(body, sizeof(ScalarBody) + std::uint64_t{s.count} * sizeof(ScalarValue)))
        return fail(Code::corrupt, "length of a scalar record", s.count);
    for (std::uint32_t i = 0; i < s.count; ++i) {
        const auto v = read_at<ScalarValue>(body, sizeof(ScalarBody) + std::uint64_t{i} * sizeof(ScalarValue));
        if (v.series >= registry.series().size() || v.reserved != 0)
            return fail(Code::corrupt, "series of a scalar", v.series);
    }
    return std::uint64_t{s.count};
}

Result<std::uint64_t> check_episodes(ByteView body) {
    if (body.size() < sizeof(EpisodeBody)) return fail(Code::corrupt, "episode body");
    const auto e = read_at<EpisodeBody>(body, 0);
    const std::uint64_t count = e.count;
    const std::uint64_t lengths_at = sizeof(EpisodeBody) + pad8(count * 4) + count * 8;
    if (e.reserved != 0 || e.step_stride < 1 || !length_fits(body, lengths_at + count * 16))
        return fail(Code::corrupt, "length of an episode record", count);
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto length = read_at<std::int64_t>(body, lengths_at + i * 8);
        std::int64_t span = 0;
        std::int64_t first = 0;
        if (length < 0 || length > episode_length_max || __builtin_mul_overflow(length, e.step_stride, &span) ||
            __builtin_sub_overflow(e.step, span, &first))
            return fail(Code::corrupt, "length of an episode", i);
    }
    return std::uint64_t{0};
}

Result<std::uint64_t> check_event(ByteView body) {
    if (body.size() < sizeof(EventBody)) return fail(Code::corrupt, "event body");
    const auto e = read_at<EventBody>(body, 0);
    const std::uint64_t texts = std::uint64_t{e.kind_bytes} + e.key_bytes + e.text_bytes;
    if (!length_fits(body, sizeof(EventBody) + texts)) return fail(Code::corrupt, "length of an event", texts);
    return std::uint64_t{0};
}

}  // namespace

FrameShape frame_shape(const FrameBody& frame, const BlockInfo& block) {
    if (frame.rows_listed == 0) return {sizeof(FrameBody), block.env_count};
    return {sizeof(FrameBody) + pad8(std::uint64_t{frame.rows} * 4), frame.rows};
}

Result<std::uint64_t> check_body(RecordKind kind, ByteView body, const Registry& registry) {
    switch (kind) {
        case RecordKind::frame: return check_frame(body, registry);
        case RecordKind::scalars: return check_scalars(body, registry);
        case RecordKind::episodes: return check_episodes(body);
        case RecordKind::event: return check_event(body);
        case RecordKind::rewind:
            if (body.size() != sizeof(RewindBody)) return fail(Code::corrupt, "length of a rewind record");
            return std::uint64_t{0};
        case RecordKind::close:
            if (body.size() != sizeof(CloseBody)) return fail(Code::corrupt, "length of a close record");
            return std::uint64_t{0};
        case RecordKind::file: break;
    }
    return fail(Code::unsupported, "record kind", static_cast<std::uint64_t>(kind));
}

}  // namespace tally::ring
