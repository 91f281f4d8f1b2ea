// SPDX-License-Identifier: Apache-2.0
//
// What    The writer's question "where does this record go": room in segments, new segments, runs.

#include <algorithm>

#include "spool/record.hpp"
#include "spool/writer.hpp"

namespace tally::spool {

namespace {

std::uint64_t size_of(const InFlightGroup& group, std::uint32_t index) {
    const std::uint64_t cursor_bytes = index == 0 ? group.cursor_bytes.size() : 0;
    return record_bytes(cursor_bytes, group.records[index].payload->size());
}

std::uint64_t room_in(const Segment* segment) {
    return segment == nullptr ? 0 : segment->header.segment_bytes - segment->write_at;
}

}  // namespace

// What append() will create, without creating it.
std::uint64_t Writer::new_bytes(const InFlightGroup& group) const {
    std::uint64_t bytes = 0;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
        std::uint64_t room = room_in(current_[lane]);
        std::uint32_t opened = 0;
        for (std::uint32_t i = 0; i < group.records.size(); ++i) {
            if (group.records[i].lane != static_cast<Lane>(lane)) continue;
            const std::uint64_t size = size_of(group, i);
            if (size > room) {
                const std::uint64_t fresh =
                    store_.next_segment_bytes(static_cast<Lane>(lane), size, opened++);
                bytes += fresh;
                room = fresh - store_.header_bytes(static_cast<Lane>(lane));
            }
            room -= size;
        }
    }
    return bytes;
}

// Places the records of one lane that have no segment, opening segments as needed. Nothing is reserved yet: when this
// fails half way, the segments opened stay as the lane's current ones, empty.
Result<std::vector<Writer::Placed>> Writer::place(const InFlightGroup& group, Lane lane, Need need) {
    std::vector<Placed> out;
    Segment*& current = current_[static_cast<std::size_t>(lane)];
    std::uint64_t at = current == nullptr ? 0 : current->write_at;
    for (std::uint32_t i = 0; i < group.records.size(); ++i) {
        const InFlightRecord& record = group.records[i];
        if (record.lane != lane || record.segment != nullptr) continue;
        const std::uint64_t size = size_of(group, i);
        if (current == nullptr || size > current->header.segment_bytes - at) {
            auto opened = store_.open_segment(lane, size, record.seq, need);
            if (!opened) return std::unexpected(opened.error());
            if (current != nullptr) retire(current);
            current = *opened;
            at = current->write_at;
        }
        out.push_back({i, current, at});
        at += size;
    }
    return out;
}

// Takes the places: encodes the heads, which name segment and offset, and queues the writes.
void Writer::settle_in(InFlightGroup& group, const std::vector<Placed>& placed, bool rewritten) {
    std::shared_ptr<Run> run;
    const auto end_run = [&] {
        if (!run) return;
        group.runs.push_back(run);
        ++run->segment->runs_in_flight;
        enqueue(run);
    };
    for (const Placed& place : placed) {
        InFlightRecord& record = group.records[place.record];
        const std::uint64_t size = size_of(group, place.record);
        RecordHeader h{};
        h.payload_xxh3 = record.payload_xxh3;
        h.salt = place.segment->header.salt;
        h.start = place.segment->header.start;
        h.group = group.number;
        h.index = place.record;
        h.total = static_cast<std::uint32_t>(group.records.size());
        h.lane = static_cast<std::uint8_t>(record.lane);
        h.flags = rewritten ? record_rewritten : 0;
        h.seq = record.seq;
        h.durable = store_.durable;
        for (const Lane each : {Lane::live, Lane::bulk, Lane::file})
            h.durable_seq[static_cast<std::size_t>(each)] = store_.books.of(h.start, each).last;
        h.payload_bytes = static_cast<std::uint32_t>(record.payload->size());
        h.segment_number = place.segment->number;
        h.offset = place.offset;
        const bool first = place.record == 0;
        record.head = encode_record_head(h, first ? static_cast<std::uint32_t>(group.cursors.size()) : 0,
                                         first ? ByteView(group.cursor_bytes) : ByteView{});
        record.segment = place.segment;
        record.offset = place.offset;
        if (first) group.durable_claimed = h.durable;
        place.segment->note(record.seq, group.number, record.payload->size());
        place.segment->write_at = place.offset + size;
        if (!run || run->segment != place.segment) {
            end_run();
            run = std::make_shared<Run>();
            run->group = &group;
            run->segment = place.segment;
            run->begin = place.offset;
        }
        run->records.push_back(place.record);
        run->end = place.offset + size;
    }
    end_run();
}

// The lane does not write here any more; the descriptor closes when nothing is in flight.
void Writer::retire(Segment* segment) {
    segment->appending = false;
    retiring_.push_back(segment);
}

void Writer::retire_finished() {
    std::erase_if(retiring_, [&](Segment* segment) {
        if (segment->runs_in_flight != 0 || segment->writes_in_flight != 0) return false;
        segment->fd.reset();
        // Whoever reads here much later walks the file again: memory must not grow with the backlog.
        if (store_.fetch_at[static_cast<std::size_t>(segment->lane)].number < segment->number) {
            segment->index = {};
            segment->indexed = false;
        }
        return true;
    });
}

}  // namespace tally::spool
