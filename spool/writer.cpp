// SPDX-License-Identifier: Apache-2.0
#include "spool/writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/base/clock.hpp"
#include "agent/base/hash.hpp"
#include "agent/base/log.hpp"
#include "spool/fault_point.hpp"
#include "spool/record.hpp"

namespace tally::spool {

namespace {

constexpr std::uint32_t slot_count = 8;
constexpr std::uint32_t slot_bytes = 1U << 20;
constexpr std::uint32_t retries_max = 8;
constexpr std::int64_t rehome_pause_ns = 100'000'000;
constexpr std::uint32_t rehome_failures_max = 10;
constexpr std::uint64_t live_share_bytes = 128U << 10;  // what has_room() allows for the live lane's part

// Copies the part of `from`, which lies at `at`, that falls into [begin, begin + bytes).
void copy_overlap(std::uint8_t* out, std::uint64_t begin, std::uint64_t bytes, std::uint64_t at,
                  ByteView from) {
    const std::uint64_t first = std::max(begin, at);
    const std::uint64_t last = std::min(begin + bytes, at + from.size());
    if (first < last) std::memcpy(out + (first - begin), from.data() + (first - at), last - first);
}

void zero_overlap(std::uint8_t* out, std::uint64_t begin, std::uint64_t bytes, std::uint64_t at,
                  std::uint64_t end) {
    const std::uint64_t first = std::max(begin, at);
    const std::uint64_t last = std::min(begin + bytes, end);
    if (first < last) std::memset(out + (first - begin), 0, last - first);
}

}  // namespace

bool InFlightGroup::complete() const {
    return homeless == 0 && std::all_of(runs.begin(), runs.end(), [](const std::shared_ptr<Run>& run) {
               return run->abandoned || run->pieces_open == 0;
           });
}

Result<std::unique_ptr<Writer>> Writer::open(Store& store) {
    std::unique_ptr<Writer> writer(new Writer(store));
    writer->buffers_ = allocate_aligned(std::uint64_t{slot_count} * slot_bytes);
    writer->slots_.resize(slot_count);
    for (std::uint32_t i = slot_count; i-- > 0;) writer->slots_free_.push_back(i);
    auto chosen = choose_engine(store.options.engine, {writer->buffers_.get(), slot_count, slot_bytes});
    if (!chosen) return std::unexpected(chosen.error());
    writer->reason_ = std::move(chosen->reason);
    const auto& wrap = store.seams.wrap_engine;
    writer->engine_ = wrap ? wrap(std::move(chosen->engine)) : std::move(chosen->engine);
    return writer;
}

bool Writer::has_room(std::uint64_t payload_bytes) const {
    if (homeless_ || groups_.size() >= store_.options.groups_in_flight_max) return false;
    std::uint64_t bytes = 0;
    const std::uint64_t wanted[] = {live_share_bytes, record_bytes(0, payload_bytes)};
    for (std::size_t lane = 0; lane < 2; ++lane) {
        const Segment* current = current_[lane];
        if (current != nullptr && current->header.segment_bytes - current->write_at >= wanted[lane]) continue;
        bytes += store_.next_segment_bytes(static_cast<Lane>(lane), wanted[lane]);
    }
    return bytes == 0 || store_.space_for(bytes, Need::ordinary);
}

Plan Writer::plan() const {
    Plan out;
    out.group = GroupNo{group_next_};
    for (std::size_t lane = 0; lane < lane_count; ++lane) out.next[lane] = Seq{seq_next_[lane]};
    return out;
}

Status Writer::check(const Group& group) const {
    if (group.records.empty() || group.records.size() > group_records_max) {
        return fail(Code::invalid, "number of records in a group", group.records.size());
    }
    if (raw(group.number) != group_next_)
        return fail(Code::invalid, "group number is not the planned one", raw(group.number));
    if (group.records.front().lane != Lane::live)
        return fail(Code::invalid, "record 0 is not in the live lane");
    std::uint64_t next[lane_count];
    std::copy(std::begin(seq_next_), std::end(seq_next_), next);
    for (const NewRecord& record : group.records) {
        if (static_cast<std::size_t>(record.lane) >= lane_count) return fail(Code::invalid, "lane");
        if (raw(record.seq) != next[static_cast<std::size_t>(record.lane)]++) {
            return fail(Code::invalid, "sequence is not the planned one", raw(record.seq));
        }
        if (!record.payload || record.payload->empty())
            return fail(Code::invalid, "record without a payload");
        if (record.payload->size() > payload_bytes_max)
            return fail(Code::too_big, "payload", record.payload->size());
    }
    for (const CursorUpdate& cursor : group.cursors) {
        if (cursor.key.empty() || cursor.key.size() > cursor_key_bytes_max)
            return fail(Code::too_big, "cursor key");
        if (cursor.value.size() > cursor_value_bytes_max)
            return fail(Code::too_big, "cursor value", cursor.value.size());
    }
    return {};
}

Result<Append> Writer::append(const Group& group) {
    TALLY_TRY(check(group));
    if (homeless_ && rehome_failures_ >= rehome_failures_max) return std::unexpected(rehome_error_);
    if (homeless_ || groups_.size() >= store_.options.groups_in_flight_max) return Append::full;
    auto fresh = std::make_unique<InFlightGroup>();
    fresh->number = group_next_;
    for (const NewRecord& record : group.records) {
        fresh->records.push_back(
            {record.lane, raw(record.seq), record.payload, xxh3(ByteView(*record.payload)), {}, nullptr, 0});
    }
    ByteWriter cursors(fresh->cursor_bytes);
    for (const CursorUpdate& cursor : group.cursors) put_cursor(cursors, cursor.key, cursor.value);
    fresh->cursors = group.cursors;

    const Need need = group.reserve ? Need::reserve : Need::ordinary;
    const std::uint64_t bytes = new_bytes(*fresh);
    if (bytes > 0 && need == Need::ordinary && !store_.space_for(bytes, need)) return Append::full;
    std::vector<Placed> placed[lane_count];
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
        auto places = place(*fresh, static_cast<Lane>(lane), need);
        if (!places) {
            if (places.error().code == Code::full) return Append::full;
            return std::unexpected(places.error());
        }
        placed[lane] = std::move(*places);
    }
    for (const auto& places : placed) settle_in(*fresh, places, false);
    for (const InFlightRecord& record : fresh->records) ++seq_next_[static_cast<std::size_t>(record.lane)];
    ++group_next_;
    groups_.push_back(std::move(fresh));
    pump();
    return Append::ok;
}

void Writer::enqueue(const std::shared_ptr<Run>& run) {
    for (std::uint64_t at = run->begin; at < run->end; at += slot_bytes) {
        const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(slot_bytes, run->end - at));
        queue_.push_back({run, at, bytes});
        ++run->pieces_open;
    }
}

void Writer::fill(std::uint8_t* out, const Piece& piece) const {
    for (const std::uint32_t index : piece.run->records) {
        const InFlightRecord& record = piece.run->group->records[index];
        const std::uint64_t payload_at = record.offset + record.head.size();
        const std::uint64_t payload_end = payload_at + record.payload->size();
        copy_overlap(out, piece.offset, piece.bytes, record.offset, record.head);
        copy_overlap(out, piece.offset, piece.bytes, payload_at, *record.payload);
        zero_overlap(out, piece.offset, piece.bytes, payload_end, round_up(payload_end, block_bytes));
    }
}

void Writer::pump() {
    while (!slots_free_.empty() && !queue_.empty()) {
        Piece piece = std::move(queue_.front());
        queue_.pop_front();
        if (piece.run->abandoned) continue;
        const std::uint32_t slot = slots_free_.back();
        slots_free_.pop_back();
        fill(buffers_.get() + std::size_t{slot} * slot_bytes, piece);
        ++piece.run->segment->writes_in_flight;
        slots_[slot] = {std::move(piece), 0, 0, true};
        submit(slot);
    }
    engine_->flush();
}

void Writer::submit(std::uint32_t slot) {
    const Slot& s = slots_[slot];
    engine_->submit({s.piece.run->segment->fd.get(), buffers_.get() + std::size_t{slot} * slot_bytes + s.done,
                     s.piece.bytes - s.done, s.piece.offset + s.done, slot});
}

void Writer::finish_slot(std::uint32_t slot) {
    --slots_[slot].piece.run->segment->writes_in_flight;
    slots_[slot] = {};
    slots_free_.push_back(slot);
}

void Writer::completed(std::uint32_t slot, std::int32_t result) {
    Slot& s = slots_[slot];
    TALLY_ASSERT(s.used);
    const std::shared_ptr<Run> run = s.piece.run;
    if (run->abandoned) return finish_slot(slot);
    const bool passing = result == -EINTR || result == -EAGAIN;
    const std::uint32_t left = s.piece.bytes - s.done;
    if (result >= 0 && static_cast<std::uint32_t>(result) >= left) {
        fault_point("record-written");
        --run->pieces_open;
        return finish_slot(slot);
    }
    // Short: what is not a whole block is written once more.
    const std::uint32_t progress =
        result > 0 ? static_cast<std::uint32_t>(result) / block_bytes * block_bytes : 0;
    if ((result < 0 && !passing) || (progress == 0 && ++s.retries > retries_max)) {
        finish_slot(slot);
        return mark_suspect(run->segment, result < 0 ? -result : EIO);
    }
    s.done += progress;
    submit(slot);
}

// Everything of the lane that is not durable is written again, in order, to a fresh segment: also what lies in a healthy
// one behind, so that sequences and groups keep growing along the chain, which recovery relies on.
void Writer::mark_suspect(Segment* segment, int err) {
    if (segment->suspect) return;
    segment->suspect = true;
    ++store_.write_errors;
    log_error("spool.segment_suspect", {{"file", segment->path}, {"errno", err}});
    Segment*& current = current_[static_cast<std::size_t>(segment->lane)];
    if (current != nullptr) retire(current);
    current = nullptr;
    for (const auto& group : groups_) {
        for (const auto& run : group->runs) {
            if (run->segment->lane != segment->lane || run->abandoned) continue;
            run->abandoned = true;
            --run->segment->runs_in_flight;
            for (const std::uint32_t index : run->records) group->records[index].segment = nullptr;
            group->homeless += static_cast<std::uint32_t>(run->records.size());
            homeless_ = true;
        }
    }
    rehome_at_ns_ = 0;
}

// Writes again what suspect segments held, in order. Returns true when everything has a place.
bool Writer::rehome() {
    for (const auto& group : groups_) {
        if (group->homeless == 0) continue;
        for (std::size_t lane = 0; lane < lane_count; ++lane) {
            auto places = place(*group, static_cast<Lane>(lane), Need::reserve);
            if (!places) {
                rehome_error_ = places.error();
                ++rehome_failures_;
                return false;
            }
            settle_in(*group, *places, true);
            group->homeless -= static_cast<std::uint32_t>(places->size());
        }
    }
    homeless_ = false;
    rehome_failures_ = 0;
    pump();
    return true;
}

bool Writer::reap(bool wait) {
    done_.clear();
    engine_->reap(done_, wait);
    const std::vector<WriteDone> batch = done_;
    for (const WriteDone& done : batch) completed(done.slot, done.result);
    pump();
    return !batch.empty();
}

void Writer::commit(InFlightGroup& group) {
    store_.durable = group.number;
    for (const InFlightRecord& record : group.records) {
        Segment& segment = *record.segment;
        if (segment.indexed) {
            segment.index.push_back({record.seq, group.number, record.offset,
                                     static_cast<std::uint32_t>(record.head.size() - sizeof(RecordHeader)),
                                     static_cast<std::uint32_t>(record.payload->size()),
                                     record.payload_xxh3});
        }
        Book& book = store_.books.of(raw(store_.start), record.lane);
        book.last = std::max(book.last, record.seq);
        book.seen.insert(record.seq);
        store_.cache.put(record.lane, record.seq, record.payload);
    }
    Segment& first = *group.records.front().segment;
    first.durable_claimed = std::max(first.durable_claimed, group.durable_claimed);
    for (const auto& run : group.runs) {
        if (!run->abandoned) --run->segment->runs_in_flight;
    }
    apply_cursors(store_.cursors, std::move(group.cursors));
}

bool Writer::advance() {
    bool moved = false;
    while (!groups_.empty() && groups_.front()->complete()) {
        fault_point("commit-written");
        commit(*groups_.front());
        fault_point("fsync-done");
        groups_.pop_front();
        moved = true;
    }
    retire_finished();
    return moved;
}

Result<bool> Writer::poll(std::int64_t monotonic_now_ns) {
    bool moved = reap(false);
    if (homeless_ && monotonic_now_ns >= rehome_at_ns_) {
        rehome_at_ns_ = monotonic_now_ns + rehome_pause_ns;
        moved = rehome() || moved;
    }
    return advance() || moved;
}

Status Writer::drain() {
    while (!groups_.empty()) {
        advance();
        if (groups_.empty()) break;
        if (homeless_ && !rehome()) {
            if (rehome_failures_ >= rehome_failures_max) return std::unexpected(rehome_error_);
            ::usleep(rehome_pause_ns / 1000);
        }
        reap(slots_free_.size() < slot_count);
    }
    retire_finished();
    return {};
}

}  // namespace tally::spool
