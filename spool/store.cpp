// SPDX-License-Identifier: Apache-2.0
#include "spool/store.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"
#include "spool/paths.hpp"
#include "spool/record.hpp"

namespace tally::spool {

namespace {
constexpr std::uint64_t kept_back_bytes = 4ULL << 20;
constexpr int open_attempts = 3;
}  // namespace

Seams real_seams() {
    return {nullptr, random_u64, wall_ns, Uuid::random, nullptr};
}

void PayloadCache::put(Lane lane, std::uint64_t seq, const Payload& payload) {
    if (payload->size() > bytes_max_) return;
    lanes_[static_cast<std::size_t>(lane)].emplace(seq, payload);
    order_.emplace_back(lane, seq);
    bytes_ += payload->size();
    while (bytes_ > bytes_max_) {
        const auto [old_lane, old_seq] = order_.front();
        order_.pop_front();
        take(old_lane, old_seq);
    }
    // Entries already taken leave their place in the order behind.
    while (!order_.empty() &&
           !lanes_[static_cast<std::size_t>(order_.front().first)].contains(order_.front().second)) {
        order_.pop_front();
    }
}

Payload PayloadCache::take(Lane lane, std::uint64_t seq) {
    auto& payloads = lanes_[static_cast<std::size_t>(lane)];
    const auto it = payloads.find(seq);
    if (it == payloads.end()) return nullptr;
    Payload out = std::move(it->second);
    payloads.erase(it);
    bytes_ -= out->size();
    return out;
}

Store::Store(const Options& options_in, const Seams& seams_in)
    : options(options_in), seams(seams_in), books(options_in.keep_until), cache(options_in.cache_bytes) {
    std::fill(std::begin(growth_bytes), std::end(growth_bytes), options.segment_bytes_min);
}

bool Store::space_for(std::uint64_t bytes, Need need) const {
    const std::uint64_t back =
        need == Need::ordinary ? std::min(kept_back_bytes, options.budget_bytes / 8) : 0;
    if (bytes_on_disk() + bytes + back > options.budget_bytes) return false;
    if (need != Need::ordinary || options.reserve_free_bytes == 0) return true;
    struct statvfs fs{};
    if (::statvfs(options.dir.c_str(), &fs) != 0) return true;  // then the write itself will say
    const std::uint64_t free_bytes = std::uint64_t{fs.f_bavail} * fs.f_frsize;
    return free_bytes >= bytes && free_bytes - bytes >= options.reserve_free_bytes;
}

// Those that have segments; and all that committed something, until the first group of this life is durable, because it tells the receiver how they
// ended: a life that dies before that leaves the telling to the next one.
std::vector<EndedStart> Store::starts_to_name() const {
    std::vector<EndedStart> out;
    for (const EndedStart& entry : ended) {
        if ((durable == 0 && entry.group != 0) || starts_here(entry.start)) out.push_back(entry);
    }
    return out;
}

std::uint64_t Store::header_bytes(Lane lane) const {
    return segment_header_bytes(starts_to_name().size(), lane == Lane::live ? &cursors : nullptr);
}

std::uint64_t Store::next_segment_bytes(Lane lane, std::uint64_t record, std::uint32_t nth) const {
    std::uint64_t bytes = growth_bytes[static_cast<std::size_t>(lane)];
    for (; nth > 0 && bytes < options.segment_bytes_max; --nth)
        bytes = std::min(bytes * 2, options.segment_bytes_max);
    return std::max(bytes, round_up(header_bytes(lane) + record, block_bytes));
}

Result<Segment*> Store::open_segment(Lane lane, std::uint64_t record, std::uint64_t first_seq, Need need) {
    const auto at = static_cast<std::size_t>(lane);
    const auto starts = starts_to_name();
    const CursorTable* table = lane == Lane::live ? &cursors : nullptr;
    std::uint64_t bytes = next_segment_bytes(lane, record);
    if (!space_for(bytes, need) && need != Need::ordinary) {
        // Better a small segment than none.
        bytes = segment_header_bytes(starts.size(), table) + record;
        if (need != Need::opening && !space_for(bytes, need)) return fail(Code::full, "spool budget", bytes);
    } else if (!space_for(bytes, need)) {
        return fail(Code::full, "spool budget", bytes);
    }
    Error last{Code::io, 0, "open segment", 0};
    for (int attempt = 0; attempt < open_attempts; ++attempt) {
        auto segment = std::make_unique<Segment>();
        segment->lane = lane;
        segment->number = number_next[at]++;
        segment->path = lane_dir(options.dir, lane) + "/" + segment_name(segment->number);
        SegmentHeader& h = segment->header;
        std::copy(uuid.bytes.begin(), uuid.bytes.end(), h.spool);
        h.segment_number = segment->number;
        h.salt = seams.random();
        h.start = raw(start);
        h.segment_bytes = bytes;
        h.committed_group = durable;
        h.first_seq = first_seq;
        h.created_ns = seams.wall_ns();
        h.lane = static_cast<std::uint32_t>(lane);
        for (const Lane each : {Lane::live, Lane::bulk, Lane::file}) {
            const auto i = static_cast<std::size_t>(each);
            h.committed_seq[i] = books.of(raw(start), each).last;
            h.next_number[i] = number_next[i];
        }
        const Bytes header = encode_segment_header(h, starts, table);
        std::memcpy(&h, header.data(), sizeof h);
        const int refused = seams.refuse_segment ? seams.refuse_segment(lane) : 0;
        Result<Fd> fd = refused != 0
                            ? Result<Fd>(fail_errno("create segment", refused))
                            : create_segment_file(segment->path, bytes, header, need == Need::opening);
        if (!fd) {
            last = fd.error();
            ++write_errors;
            log_error("spool.open_segment_failed", {{"lane", lane_name(lane)}, {"error", last}});
            const std::uint64_t least = segment_header_bytes(starts.size(), table) + record;
            if (last.code == Code::full && need != Need::ordinary && bytes > least) {
                bytes = least;  // the disk is full: still open, so that uploading frees it
                continue;
            }
            if (last.code == Code::full || last.code == Code::denied) break;
            continue;
        }
        segment->fd = std::move(*fd);
        segment->own = segment->appending = segment->indexed = segment->known = true;
        segment->write_at = h.header_bytes;
        segment->durable_claimed = durable;
        growth_bytes[at] = std::min(growth_bytes[at] * 2, options.segment_bytes_max);
        Segment* added = add(std::move(segment));
        relink(lane);
        return added;
    }
    return std::unexpected(last);
}

Segment* Store::add(std::unique_ptr<Segment> segment) {
    segment_bytes += segment->header.segment_bytes;
    ++segments_of_[segment->header.start];
    auto& lane = chain[static_cast<std::size_t>(segment->lane)];
    const std::uint64_t number = segment->number;
    return lane.emplace(number, std::move(segment)).first->second.get();
}

void Store::relink(Lane lane) {
    std::map<std::uint64_t, std::uint64_t> lowest;  // by start
    auto& segments = chain[static_cast<std::size_t>(lane)];
    for (auto it = segments.rbegin(); it != segments.rend(); ++it) {
        Segment& segment = *it->second;
        auto& first = lowest.try_emplace(segment.header.start, UINT64_MAX).first->second;
        segment.seq_end = first;
        first = std::min(first, segment.header.first_seq);
    }
}

void Store::remove(Lane lane, std::uint64_t number) {
    auto& segments = chain[static_cast<std::size_t>(lane)];
    const auto it = segments.find(number);
    segment_bytes -= it->second->header.segment_bytes;
    const auto count = segments_of_.find(it->second->header.start);
    if (--count->second == 0) segments_of_.erase(count);
    segments.erase(it);
}

std::pair<std::uint64_t, std::uint64_t> Store::expected(const Segment& segment) const {
    // A later segment may have been opened for groups that were never committed.
    const Book* book = books.find(segment.header.start, segment.lane);
    return {segment.header.first_seq, std::min(segment.seq_end - 1, book == nullptr ? 0 : book->last)};
}

bool Store::all_from(const Segment& segment, IntervalSet Book::* set) const {
    const Book* book = books.find(segment.header.start, segment.lane);
    if (book == nullptr || segment.appending || segment.runs_in_flight > 0) return false;
    return segment.header.first_seq > book->last ||
           (book->*set).missing(segment.header.first_seq, book->last).empty();
}

bool Store::committed(std::uint64_t which, std::uint64_t group) const {
    if (which == raw(start)) return group <= durable;
    const EndedStart* entry = find_start(ended, which);
    return entry != nullptr && group <= entry->group;
}

Status Store::load_index(Segment& segment, const Walk* walk) {
    if (segment.indexed) return {};
    Walk fresh;
    if (walk == nullptr) {
        auto walked = walk_segment(segment.path, segment.header, false);
        if (!walked) return std::unexpected(walked.error());
        fresh = std::move(*walked);
        walk = &fresh;
    }
    segment.index.clear();
    const bool first_time = !segment.known;
    for (const WalkedRecord& record : walk->records) {
        if (!committed(record.header.start, record.header.group)) continue;
        segment.index.push_back(record.ref());
        if (first_time) segment.note(record.header.seq, record.header.group, record.header.payload_bytes);
    }
    segment.known = true;
    segment.indexed = true;
    Book& book = books.of(segment.header.start, segment.lane);
    for (const RecordRef& record : segment.index) book.seen.insert(record.seq);
    judge_damage(segment, *walk);
    return {};
}

}  // namespace tally::spool
