// SPDX-License-Identifier: Apache-2.0
#include "spool/fetch.hpp"

#include <algorithm>

#include "agent/base/log.hpp"
#include "spool/paths.hpp"

namespace tally::spool {

Payload Fetcher::load(Segment& segment, const RecordRef& record) {
    if (segment.header.start == raw(store_.start)) {
        if (Payload cached = store_.cache.take(segment.lane, record.seq)) return cached;
    }
    const auto at = static_cast<std::size_t>(segment.lane);
    if (!open_[at] || open_number_[at] != segment.number) {
        auto fd = open_regular(segment.path);
        if (!fd) {
            store_.lose_record(segment, record, "segment cannot be opened");
            return nullptr;
        }
        open_[at] = std::move(*fd);
        open_number_[at] = segment.number;
    }
    auto payload = read_payload(open_[at].get(), record);
    if (payload) return *payload;
    if (!store_.copy_behind(segment, record.seq)) store_.lose_record(segment, record, "payload unreadable");
    return nullptr;
}

bool Fetcher::take(Segment& segment, std::uint64_t bytes_max, std::uint64_t& bytes,
                   std::vector<Fetched>& out) {
    Store::Place& place = store_.fetch_at[static_cast<std::size_t>(segment.lane)];
    Book& book = store_.books.of(segment.header.start, segment.lane);
    auto it = std::lower_bound(segment.index.begin(), segment.index.end(), place.offset,
                               [](const RecordRef& r, std::uint64_t offset) { return r.offset < offset; });
    for (; it != segment.index.end(); ++it) {
        if (book.settled.contains(it->seq) || book.fetched.contains(it->seq)) {
            if (segment.header.start == raw(store_.start)) store_.cache.take(segment.lane, it->seq);
            place.offset = it->offset + 1;
            continue;
        }
        if (!out.empty() && bytes + it->payload_bytes > bytes_max) return false;
        const RecordRef record = *it;
        place.offset = record.offset + 1;
        Payload payload = load(segment, record);
        if (!payload) continue;
        book.fetched.insert(record.seq);
        bytes += record.payload_bytes;
        out.push_back({{StartId{segment.header.start}, segment.lane, Seq{record.seq}},
                       GroupNo{record.group},
                       std::move(payload)});
    }
    return true;
}

Result<std::vector<Fetched>> Fetcher::fetch(Lane lane, std::uint64_t bytes_max) {
    std::vector<Fetched> out;
    std::uint64_t bytes = 0;
    const auto at = static_cast<std::size_t>(lane);
    Store::Place& place = store_.fetch_at[at];
    for (;;) {
        const auto it = store_.chain[at].lower_bound(place.number);
        if (it == store_.chain[at].end()) return out;
        Segment& segment = *it->second;
        if (segment.number != place.number) place = {segment.number, 0};
        if (!store_.all_from(segment, &Book::settled)) {
            if (auto loaded = store_.load_index(segment); !loaded) {
                // Deleted or unreadable behind our back: nothing to hand out, its records are named as damage.
                log_error("spool.segment_unreadable", {{"file", segment.path}, {"error", loaded.error()}});
                segment.indexed = segment.known = true;
                store_.judge_damage(segment, Walk{});
            }
            if (!take(segment, bytes_max, bytes, out)) return out;
        }
        if (segment.appending || segment.runs_in_flight > 0) return out;
        segment.index = {};
        segment.indexed = false;
        place = {segment.number + 1, 0};
    }
}

}  // namespace tally::spool
