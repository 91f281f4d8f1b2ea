// SPDX-License-Identifier: Apache-2.0
#include "spool/record.hpp"

#include "agent/base/hash.hpp"

namespace tally::spool {

void put_cursor(ByteWriter& out, ByteView key, ByteView value) {
    out.put(static_cast<std::uint16_t>(key.size()));
    out.put(static_cast<std::uint32_t>(value.size()));
    out.bytes(key);
    out.bytes(value);
}

Result<std::vector<CursorUpdate>> read_cursors(ByteView bytes, std::uint32_t count) {
    constexpr std::size_t entry_bytes_min = 6;
    if (bytes.size() / entry_bytes_min < count) return fail(Code::truncated, "cursor table", count);
    std::vector<CursorUpdate> out;
    out.reserve(count);
    ByteReader in(bytes);
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto key_bytes = in.get<std::uint16_t>();
        const auto value_bytes = in.get<std::uint32_t>();
        const ByteView key = in.bytes(key_bytes);
        const ByteView value = in.bytes(value_bytes);
        if (!in.ok()) return fail(Code::truncated, "cursor entry", i);
        out.push_back({Bytes(key.begin(), key.end()), Bytes(value.begin(), value.end())});
    }
    return out;
}

void apply_cursors(CursorTable& table, std::vector<CursorUpdate> updates) {
    for (CursorUpdate& update : updates) {
        if (update.value.empty()) {
            table.erase(update.key);
        } else {
            table.insert_or_assign(std::move(update.key), std::move(update.value));
        }
    }
}

Bytes encode_record_head(RecordHeader header, std::uint32_t cursors, ByteView cursor_bytes) {
    header.magic = record_magic;
    header.version = static_cast<std::uint16_t>(version);
    header.header_bytes = sizeof(RecordHeader);
    header.cursors = cursors;
    header.cursor_bytes = static_cast<std::uint32_t>(cursor_bytes.size());
    Bytes out;
    out.reserve(sizeof header + cursor_bytes.size());
    ByteWriter writer(out);
    writer.put(header);
    writer.bytes(cursor_bytes);
    writer.patch(offsetof(RecordHeader, header_xxh3), xxh3(ByteView(out).subspan(16)));
    return out;
}

bool head_intact(ByteView at, RecordHeader& out) {
    if (at.size() < sizeof(RecordHeader)) return false;
    std::memcpy(&out, at.data(), sizeof out);
    if (out.magic != record_magic || out.version != version || out.header_bytes != sizeof(RecordHeader))
        return false;
    if (out.payload_bytes == 0 || out.payload_bytes > payload_bytes_max || out.lane >= lane_count)
        return false;
    if (out.total == 0 || out.total > group_records_max || out.index >= out.total) return false;
    if (out.cursor_bytes > at.size() - sizeof(RecordHeader)) return false;
    return out.header_xxh3 == xxh3(at.subspan(16, sizeof(RecordHeader) - 16 + out.cursor_bytes));
}

bool head_fits(const RecordHeader& record, const SegmentHeader& segment, std::uint64_t offset) {
    if (record.salt != segment.salt || record.start != segment.start || record.lane != segment.lane)
        return false;
    if (record.segment_number != segment.segment_number || record.offset != offset) return false;
    const std::uint64_t end = offset + sizeof(RecordHeader) + record.cursor_bytes + record.payload_bytes;
    return end <= segment.segment_bytes && record.group != 0 && record.seq != 0;
}

}  // namespace tally::spool
