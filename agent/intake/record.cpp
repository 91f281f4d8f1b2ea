// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/record.hpp"

#include <algorithm>

#include "agent/parcel/utf8.hpp"

namespace tally::intake {

namespace {

constexpr std::uint64_t pad8(std::uint64_t n) { return (n + 7) & ~std::uint64_t{7}; }

std::unexpected<Error> corrupt(const char* what, std::uint64_t number = 0) { return fail(Code::corrupt, what, number); }

template <class T>
T read_at(ByteView body, std::size_t at) {
    T value;
    std::memcpy(&value, body.data() + at, sizeof value);
    return value;
}

bool steps_fit(const ring::FrameBody& f) {
    std::int64_t last = 0;
    return f.steps >= 1 && f.step_stride >= 1 &&
           !__builtin_mul_overflow(static_cast<std::int64_t>(f.steps) - 1, f.step_stride, &last) &&
           !__builtin_add_overflow(f.step_first, last, &last);
}

Status check_shape(const ring::FrameBody& f, const Block& block) {
    if (block.block == 0 || f.block != block.block) return corrupt("frame of another block", f.block);
    if (f.metrics == 0 || f.metric_first >= block.metrics.size() || f.metrics > block.metrics.size() - f.metric_first)
        return corrupt("metrics of a frame", f.metrics);
    if (!steps_fit(f)) return corrupt("steps of a frame", f.steps);
    if (f.rows_listed > 1 || (f.rows_listed == 0 && f.rows != 0)) return corrupt("rows of a frame", f.rows);
    return {};
}

Status check_rows(ByteView rows, std::uint32_t env_count) {
    std::uint32_t highest = 0;
    for (std::size_t i = 0; i < rows.size(); i += 4) highest = std::max(highest, read_at<std::uint32_t>(rows, i));
    if (!rows.empty() && highest >= env_count) return corrupt("environment of a row", highest);
    return {};
}

Status check_bools(const FrameRecord& r, const Block& block) {
    for (std::uint32_t m = 0; m < r.body.metrics; ++m) {
        if (block.metrics[r.body.metric_first + m].dtype != Dtype::boolean) continue;
        std::uint8_t all = 0;
        for (std::uint32_t t = 0; t < r.body.steps; ++t) {
            const std::uint8_t* v = r.vector(m, t);
            for (std::uint32_t i = 0; i < r.n; ++i) all |= v[i];
        }
        if (all > 1) return corrupt("bool that is neither 0 nor 1", m);
    }
    return {};
}

std::uint64_t bits_mask(Dtype dtype) {
    const std::uint32_t width = dtype_width(dtype);
    return width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width)) - 1;
}

}  // namespace

Status parse_frame(ByteView body, const Block& block, FrameRecord& out) {
    if (body.size() < sizeof(ring::FrameBody)) return corrupt("frame body", body.size());
    out.body = read_at<ring::FrameBody>(body, 0);
    const ring::FrameBody& f = out.body;
    TALLY_TRY(check_shape(f, block));
    const std::uint64_t rows_bytes = std::uint64_t{f.rows} * 4;
    const std::uint64_t values_at = sizeof f + pad8(rows_bytes);
    if (values_at > body.size()) return corrupt("row list of a frame", f.rows);
    out.n = f.rows_listed != 0 ? f.rows : block.env_count;
    out.rows = body.subspan(sizeof f, rows_bytes);
    out.values = body.data() + values_at;
    out.offsets.resize(f.metrics);
    out.step_bytes = 0;
    for (std::uint32_t m = 0; m < f.metrics; ++m) {
        out.offsets[m] = out.step_bytes;
        out.step_bytes += pad8(std::uint64_t{out.n} * dtype_width(block.metrics[f.metric_first + m].dtype));
    }
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(out.step_bytes, std::uint64_t{f.steps}, &total) || total != body.size() - values_at)
        return corrupt("length of a frame", body.size());
    TALLY_TRY(check_rows(out.rows, block.env_count));
    return out.n == 0 ? Status{} : check_bools(out, block);
}

Result<ScalarRecord> parse_scalars(ByteView body, const std::vector<parcel::Metric>& series) {
    if (body.size() < sizeof(ring::ScalarBody)) return corrupt("scalar body", body.size());
    const auto head = read_at<ring::ScalarBody>(body, 0);
    ScalarRecord out;
    out.step = head.step;
    out.values = body.subspan(sizeof head);
    if (out.values.size() != std::uint64_t{head.count} * sizeof(ring::ScalarValue))
        return corrupt("length of a scalar record", head.count);
    for (std::size_t i = 0; i < out.count(); ++i) {
        const ring::ScalarValue v = out.at(i);
        if (v.series >= series.size()) return corrupt("series of a scalar", v.series);
        const Dtype dtype = series[v.series].dtype;
        if ((v.bits & ~bits_mask(dtype)) != 0 || (dtype == Dtype::boolean && v.bits > 1))
            return corrupt("bits of a scalar", v.series);
    }
    return out;
}

Result<std::vector<parcel::EpisodeHeader>> parse_episodes(ByteView body) {
    if (body.size() < sizeof(ring::EpisodeBody)) return corrupt("episode body", body.size());
    const auto head = read_at<ring::EpisodeBody>(body, 0);
    const std::uint64_t count = head.count;
    const std::uint64_t episodes_at = sizeof head + pad8(count * 4);
    if (head.step_stride < 1 || body.size() != episodes_at + count * 24) return corrupt("length of an episode record", count);
    std::vector<parcel::EpisodeHeader> out(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        parcel::EpisodeHeader& e = out[i];
        e.env = read_at<std::uint32_t>(body, sizeof head + i * 4);
        e.episode = read_at<std::int64_t>(body, episodes_at + i * 8);
        e.length = read_at<std::int64_t>(body, episodes_at + (count + i) * 8);
        e.ret = read_at<double>(body, episodes_at + (2 * count + i) * 8);
        std::int64_t span = 0;
        if (e.length < 0 || __builtin_mul_overflow(std::max<std::int64_t>(e.length, 1) - 1, head.step_stride, &span) ||
            __builtin_sub_overflow(head.step, span, &e.step_first))
            return corrupt("length of an episode", i);
        e.step_last = head.step;
        e.points_expected = static_cast<std::uint64_t>(e.length);
    }
    return out;
}

Result<parcel::Event> parse_event(ByteView body) {
    if (body.size() < sizeof(ring::EventBody)) return corrupt("event body", body.size());
    const auto head = read_at<ring::EventBody>(body, 0);
    ByteReader in(body.subspan(sizeof head));
    parcel::Event e;
    e.kind = parcel::utf8_repaired(as_text(in.bytes(head.kind_bytes)).substr(0, 4096));
    e.key = parcel::utf8_repaired(as_text(in.bytes(head.key_bytes)).substr(0, 4096));
    e.text = parcel::utf8_repaired(as_text(in.bytes(head.text_bytes)));
    if (!in.ok() || in.left() >= 8) return corrupt("length of an event", body.size());
    return e;
}

Result<std::int64_t> parse_rewind(ByteView body) {
    if (body.size() != sizeof(ring::RewindBody)) return corrupt("rewind body", body.size());
    return read_at<ring::RewindBody>(body, 0).fork_step;
}

Result<ring::CloseBody> parse_close(ByteView body) {
    if (body.size() != sizeof(ring::CloseBody)) return corrupt("close body", body.size());
    return read_at<ring::CloseBody>(body, 0);
}

}  // namespace tally::intake
