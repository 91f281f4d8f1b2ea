// SPDX-License-Identifier: Apache-2.0
#include "spool/recovery.hpp"

#include <algorithm>
#include <set>

#include "spool/record.hpp"

namespace tally::spool {

namespace {

using Chain = std::vector<const FoundSegment*>;

class Judge {
public:
    Judge(const Listing& listing, const AckTable& acks, bool sync_first)
        : listing_(listing), acks_(acks), sync_first_(sync_first) {}

    Result<Judged> run();

private:
    struct Seen {
        std::map<std::uint64_t, std::vector<std::pair<const FoundSegment*, const WalkedRecord*>>> groups;
        EndedStart claim{};  // the highest `durable` of the records

        void note(std::uint64_t group, const std::uint64_t (&seq)[lane_count]) {
            if (group <= claim.group) return;
            claim.group = group;
            std::copy(std::begin(seq), std::end(seq), std::begin(claim.seq));
        }
    };

    void collect_tables();
    std::vector<std::uint64_t> order_starts() const;
    Chain chain_of(Lane lane, std::uint64_t start) const;
    const Walk& walk(const FoundSegment& segment);
    // Newest to oldest, until a segment that holds records but none of a group above `group`.
    void walk_back(const Chain& chain, std::uint64_t group, Seen& seen);
    EndedStart judge_start(std::uint64_t start);
    bool group_complete(const Seen& seen, std::uint64_t group) const;
    void note_acks(std::uint64_t start, Seen& seen) const;
    void name_untold();
    Status recover_cursors();

    const Listing& listing_;
    const AckTable& acks_;
    bool sync_first_;
    std::map<std::uint64_t, EndedStart> ends_;
    Judged out_;
};

void Judge::collect_tables() {
    for (const auto& chain : listing_.chain) {
        for (const FoundSegment& segment : chain) {
            for (const EndedStart& entry : segment.starts) ends_.emplace(entry.start, entry);
        }
    }
}

Chain Judge::chain_of(Lane lane, std::uint64_t start) const {
    Chain out;
    for (const FoundSegment& segment : listing_.chain[static_cast<std::size_t>(lane)]) {
        if (segment.header.start == start) out.push_back(&segment);
    }
    return out;
}

// The newest live header knows the order of those before it; anything it does not know is older, itself is newest. A
// start without a live segment that no table names is newer still: its live header was lost.
std::vector<std::uint64_t> Judge::order_starts() const {
    std::map<std::uint64_t, std::uint64_t> rank;
    for (const auto& chain : listing_.chain) {
        for (const FoundSegment& segment : chain) {
            rank.try_emplace(segment.header.start, ends_.contains(segment.header.start) ? 0 : UINT64_MAX);
        }
    }
    const auto& live = listing_.chain[0];
    for (const FoundSegment& segment : live) rank[segment.header.start] = 1;
    if (!live.empty()) {
        const FoundSegment& newest = live.back();
        for (std::size_t i = 0; i < newest.starts.size(); ++i) {
            if (auto it = rank.find(newest.starts[i].start); it != rank.end()) it->second = 2 + i;
        }
        rank[newest.header.start] = UINT64_MAX - 1;
    }
    std::vector<std::uint64_t> out;
    for (const auto& [start, place] : rank) out.push_back(start);
    std::stable_sort(out.begin(), out.end(), [&](auto a, auto b) { return rank[a] < rank[b]; });
    return out;
}

const Walk& Judge::walk(const FoundSegment& segment) {
    const SegmentKey key{segment.lane, segment.number};
    auto it = out_.walks.find(key);
    if (it == out_.walks.end()) {
        auto walked = walk_segment(segment.path, segment.header, sync_first_);
        it = out_.walks.emplace(key, walked ? std::move(*walked) : Walk{}).first;
    }
    return it->second;
}

void Judge::walk_back(const Chain& chain, std::uint64_t group, Seen& seen) {
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
        const Walk& walked = walk(**it);
        bool above = false;
        for (const WalkedRecord& record : walked.records) {
            seen.groups[record.header.group].emplace_back(*it, &record);
            seen.note(record.header.durable, record.header.durable_seq);
            above = above || record.header.group > group;
        }
        if (!walked.records.empty() && !above) return;
    }
}

bool Judge::group_complete(const Seen& seen, std::uint64_t group) const {
    const auto it = seen.groups.find(group);
    if (it == seen.groups.end()) return false;
    const std::uint32_t total = it->second.front().second->header.total;
    std::set<std::uint32_t> valid;
    for (const auto& [segment, record] : it->second) {
        if (record->header.total != total || valid.contains(record->header.index)) continue;
        const auto fd = open_regular(segment->path);
        if (fd && read_payload(fd->get(), record->ref())) valid.insert(record->header.index);
    }
    return valid.size() == total;
}

// Records whose segments are acknowledged and deleted are known from the ack file alone.
void Judge::note_acks(std::uint64_t start, Seen& seen) const {
    std::uint64_t group = 0;
    std::uint64_t seq[lane_count] = {};
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
        const auto it = acks_.find({start, static_cast<Lane>(lane)});
        if (it == acks_.end()) continue;
        group = std::max(group, it->second.durable_group);
        seq[lane] = it->second.durable_seq;
    }
    seen.note(group, seq);
}

EndedStart Judge::judge_start(std::uint64_t start) {
    Chain chains[lane_count];
    Seen seen;
    note_acks(start, seen);
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
        chains[lane] = chain_of(static_cast<Lane>(lane), start);
        for (const FoundSegment* segment : chains[lane])
            seen.note(segment->header.committed_group, segment->header.committed_seq);
    }
    // The live lane first: its tail shows how far the others have to be read.
    const std::uint64_t known = chains[0].empty() ? 0 : chains[0].back()->header.committed_group;
    walk_back(chains[0], known, seen);
    for (std::size_t lane = 1; lane < lane_count; ++lane) walk_back(chains[lane], seen.claim.group, seen);
    EndedStart end = seen.claim;
    end.start = start;
    while (group_complete(seen, end.group + 1)) {
        ++end.group;
        for (const auto& [segment, record] : seen.groups.at(end.group)) {
            auto& seq = end.seq[record->header.lane];
            seq = std::max(seq, record->header.seq);
        }
    }
    return end;
}

// A life tells the receiver how those before it ended in its first group. If it never got one durable, what its header
// names is handed on, also where no segment is left.
void Judge::name_untold() {
    const auto& live = listing_.chain[0];
    if (live.empty()) return;
    const FoundSegment& newest = live.back();
    if (ends_.at(newest.header.start).group != 0) return;
    std::vector<EndedStart> untold;
    for (const EndedStart& entry : newest.starts)
        if (entry.group != 0 && find_start(out_.starts, entry.start) == nullptr) untold.push_back(entry);
    out_.starts.insert(out_.starts.begin(), untold.begin(), untold.end());
}

Status Judge::recover_cursors() {
    const auto& live = listing_.chain[0];
    if (live.empty()) return {};
    const FoundSegment& newest = live.back();
    const auto fd = open_regular(newest.path);
    if (!fd) return std::unexpected(fd.error());
    const auto header = read_segment_header(fd->get(), Lane::live, newest.number, true);
    if (!header) return std::unexpected(header.error());
    auto table = read_cursors(header->cursors, header->fixed.cursors);
    if (!table) return std::unexpected(table.error());
    apply_cursors(out_.cursors, std::move(*table));

    Seen seen;
    walk_back(chain_of(Lane::live, newest.header.start), newest.header.committed_group, seen);
    const std::uint64_t last = ends_.at(newest.header.start).group;
    for (const auto& [group, records] : seen.groups) {
        if (group <= newest.header.committed_group || group > last) continue;
        for (const auto& [segment, record] : records) {
            if (record->header.index != 0) continue;
            if (auto updates = read_cursors(record->cursors, record->header.cursors)) {
                apply_cursors(out_.cursors, std::move(*updates));
            }
            break;  // a second copy says the same
        }
    }
    return {};
}

Result<Judged> Judge::run() {
    collect_tables();
    const auto order = order_starts();
    for (const std::uint64_t start : order) {
        if (!ends_.contains(start)) ends_.emplace(start, judge_start(start));
        out_.starts.push_back(ends_.at(start));
    }
    name_untold();
    TALLY_TRY(recover_cursors());
    return std::move(out_);
}

}  // namespace

Result<Judged> judge(const Listing& listing, const AckTable& acks, bool sync_first) {
    return Judge(listing, acks, sync_first).run();
}

const EndedStart* find_start(const std::vector<EndedStart>& starts, std::uint64_t start) {
    const auto it =
        std::find_if(starts.begin(), starts.end(), [&](const EndedStart& e) { return e.start == start; });
    return it == starts.end() ? nullptr : &*it;
}

}  // namespace tally::spool
