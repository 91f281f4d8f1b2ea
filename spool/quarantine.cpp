// SPDX-License-Identifier: Apache-2.0
//
// What    Damage: naming it, keeping a copy of it, and setting files aside. Nothing is deleted here.

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/base/log.hpp"
#include "spool/paths.hpp"
#include "spool/store.hpp"

namespace tally::spool {

namespace {

constexpr std::uint64_t copy_bytes_max = 32ULL << 20;
constexpr std::uint64_t zero_search_bytes = 1ULL << 20;

std::string base_name(const std::string& path) {
    return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

// A write error leaves two segments with the same sequences; the older one may hold the only good copy. Rewriting goes
// to the segment right behind, so one look back is enough.
void Store::look_back(const Segment& segment) {
    const auto& lane = chain[static_cast<std::size_t>(segment.lane)];
    auto it = lane.find(segment.number);
    if (it == lane.begin()) return;
    const Segment& older = *std::prev(it)->second;
    if (older.header.start != segment.header.start || older.indexed)
        return;  // its records are in `seen` already
    const auto walked = walk_segment(older.path, older.header, false);
    if (!walked) return;
    Book& book = books.of(segment.header.start, segment.lane);
    for (const WalkedRecord& record : walked->records) {
        if (committed(record.header.start, record.header.group)) book.seen.insert(record.header.seq);
    }
}

std::vector<Interval> Store::holes(const Segment& segment) const {
    auto [first, last] = expected(segment);
    const auto& lane = chain[static_cast<std::size_t>(segment.lane)];
    const auto next = lane.upper_bound(segment.number);
    const bool neighbour_gone = next != lane.end() && next->first != segment.number + 1;
    // With an ack slot lost, a segment that is gone may have been acknowledged and deleted.
    if (neighbour_gone && !ack_file.certain()) last = std::min(last, segment.seq_max);
    std::vector<Interval> out;
    const Book* book = books.find(segment.header.start, segment.lane);
    if (book == nullptr || first > last) return out;
    for (const Interval& hole : book->seen.missing(first, last)) {
        for (const Interval& part : book->settled.missing(hole.first, hole.last)) out.push_back(part);
    }
    return out;
}

void Store::judge_damage(Segment& segment, const Walk& walk) {
    if (segment.own && segment.appending) return;
    auto found = holes(segment);
    if (found.empty()) return;
    look_back(segment);
    found = holes(segment);
    std::uint64_t bytes = walk.bad_bytes;
    for (const Interval& part : found) {
        damage.push_back({false, StartId{segment.header.start}, segment.lane, part.first, part.last, bytes,
                          segment.path, walk.bad_bytes == 0 ? "records missing" : "records unreadable"});
        log_error("spool.damage",
                  {{"file", segment.path}, {"first", part.first}, {"last", part.last}, {"bytes", bytes}});
        bytes = 0;
        books.settle({segment.header.start, segment.lane}, part.first, part.last);
    }
    if (found.empty()) return;
    for (const BadRange& bad : walk.bad) quarantine_range(segment, bad.offset, bad.bytes);
}

bool Store::copy_behind(const Segment& segment, std::uint64_t seq) const {
    const auto& lane = chain[static_cast<std::size_t>(segment.lane)];
    for (auto it = lane.upper_bound(segment.number); it != lane.end(); ++it) {
        const Segment& other = *it->second;
        if (other.header.start != segment.header.start || other.header.first_seq > seq) continue;
        const auto walked = walk_segment(other.path, other.header, false);
        if (!walked) continue;
        for (const WalkedRecord& record : walked->records) {
            if (record.header.seq == seq && committed(record.header.start, record.header.group)) return true;
        }
    }
    return false;
}

void Store::lose_record(Segment& segment, const RecordRef& record, std::string_view why) {
    books.settle({segment.header.start, segment.lane}, record.seq, record.seq);
    damage.push_back({false, StartId{segment.header.start}, segment.lane, record.seq, record.seq,
                      record.payload_bytes, segment.path, std::string(why)});
    log_error("spool.damage", {{"file", segment.path}, {"seq", record.seq}, {"why", why}});
    quarantine_range(segment, record.offset,
                     sizeof(RecordHeader) + record.cursor_bytes + record.payload_bytes);
}

void Store::name_parked(const ParcelId& id) {
    const LaneKey key{raw(id.start), id.lane};
    if (books.find(key.first, key.second) == nullptr) return;
    books.settle(key, raw(id.seq), raw(id.seq));
    if (books.of(key.first, key.second).acks.lost.contains(raw(id.seq))) return;  // declared already
    damage.push_back({true, id.start, id.lane, raw(id.seq), raw(id.seq), 0, options.dir + "/parked", "parked"});
}

void Store::quarantine_range(const Segment& segment, std::uint64_t offset, std::uint64_t bytes) {
    bytes = std::min(bytes, copy_bytes_max);
    const std::string path = options.dir + "/quarantine/" + lane_name(segment.lane) + "-" +
                             segment_name(segment.number) + "." + hex16(offset) + ".bad";
    if (::access(path.c_str(), F_OK) == 0 || !space_for(bytes, Need::ordinary)) return;
    const auto fd = open_regular(segment.path);
    if (!fd) return;
    Bytes copy(bytes);
    if (!pread_all(fd->get(), copy.data(), bytes, offset)) return;
    if (!write_file_atomic(path, copy)) return;
    side_bytes += bytes;
    ++quarantined;
}

namespace {

// Gives back the space of the zeros at a file's end without changing a byte of it: an unfinished segment is little else,
// and each crash may leave one. Returns what it still takes.
std::uint64_t punch_trailing_zeros(const std::string& path, std::uint64_t bytes) {
    const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) return bytes;
    Bytes part;
    std::uint64_t end = bytes;
    while (end > 0) {
        const std::uint64_t from = (end - 1) / zero_search_bytes * zero_search_bytes;
        part.resize(end - from);
        if (!pread_all(fd.get(), part.data(), part.size(), from)) return bytes;
        const auto last = std::find_if(part.rbegin(), part.rend(), [](std::uint8_t b) { return b != 0; });
        end = from + static_cast<std::uint64_t>(part.rend() - last);
        if (last != part.rend()) break;
    }
    end = round_up(end, block_bytes);
    if (end >= bytes) return bytes;
    constexpr int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return ::fallocate(fd.get(), mode, static_cast<off_t>(end), static_cast<off_t>(bytes - end)) == 0 ? end
                                                                                                      : bytes;
}

}  // namespace

Status Store::quarantine_file(const BadFile& file) {
    const std::string target =
        options.dir + "/quarantine/" + lane_name(file.lane) + "-" + base_name(file.path);
    for (std::uint32_t n = 0; n < 1000; ++n) {
        const std::string path = n == 0 ? target : target + "." + std::to_string(n);
        if (::renameat2(AT_FDCWD, file.path.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
            log_warn("spool.quarantined", {{"file", file.path}, {"bytes", file.bytes}});
            ++quarantined;
            side_bytes += file.regular ? punch_trailing_zeros(path, file.bytes) : 0;
            return {};
        }
        if (errno != EEXIST) return fail_errno("move to quarantine");
    }
    return fail(Code::full, "too many files of one name in quarantine");
}

}  // namespace tally::spool
