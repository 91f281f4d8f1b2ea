// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/cursor.hpp"

namespace tally::intake {

namespace {
constexpr std::uint8_t cursor_version = 1;
}

Bytes cursor_key(const Uuid& ring) { return Bytes(ring.bytes.begin(), ring.bytes.end()); }

Result<Uuid> cursor_key_decode(ByteView key) {
    Uuid out;
    if (key.size() != out.bytes.size()) return fail(Code::corrupt, "key of a ring cursor", key.size());
    std::memcpy(out.bytes.data(), key.data(), key.size());
    return out;
}

Bytes encode(const RingCursor& c) {
    Bytes out;
    ByteWriter w(out);
    w.put(cursor_version);
    w.put(c.end);
    w.put(c.position);
    w.put(c.record_number);
    w.put(c.points_total);
    w.put(c.episodes);
    w.put(c.events);
    w.put(c.stats);
    w.put(c.episodes_hash);
    w.put(c.events_hash);
    w.put(c.stats_hash);
    w.put(c.dropped_points);
    w.put(c.producer_number);
    w.put(c.block);
    w.put(c.producer);
    w.put(c.attempt);
    w.put(c.run_created_ns);
    w.text16(c.run);
    w.text16(c.project);
    return out;
}

Result<RingCursor> decode_cursor(ByteView value) {
    ByteReader in(value);
    if (const auto v = in.get<std::uint8_t>(); v != cursor_version) return fail(Code::unsupported, "ring cursor", v);
    RingCursor c;
    const auto end = in.get<std::uint8_t>();
    c.end = static_cast<RingEnd>(end);
    c.position = in.get<std::uint64_t>();
    c.record_number = in.get<std::uint64_t>();
    c.points_total = in.get<std::uint64_t>();
    c.episodes = in.get<std::uint64_t>();
    c.events = in.get<std::uint64_t>();
    c.stats = in.get<std::uint64_t>();
    c.episodes_hash = in.get<std::uint64_t>();
    c.events_hash = in.get<std::uint64_t>();
    c.stats_hash = in.get<std::uint64_t>();
    c.dropped_points = in.get<std::uint64_t>();
    c.producer_number = in.get<std::uint64_t>();
    c.block = in.get<std::uint32_t>();
    c.producer = in.get<Uuid>();
    c.attempt = in.get<std::uint32_t>();
    c.run_created_ns = in.get<std::int64_t>();
    c.run = in.text16();
    c.project = in.text16();
    if (!in.ok()) return fail(Code::truncated, "ring cursor", value.size());
    if (in.left() != 0 || end > static_cast<std::uint8_t>(RingEnd::closed) || c.position % 8 != 0)
        return fail(Code::corrupt, "ring cursor", end);
    return c;
}

}  // namespace tally::intake
