// SPDX-License-Identifier: Apache-2.0
#include "spool/scan.hpp"

#include <algorithm>

#include "spool/paths.hpp"
#include "spool/recovery.hpp"

namespace tally::spool {

namespace {

class Scan {
public:
    Scan(std::string dir, const std::function<bool(const ScannedRecord&)>& visit)
        : dir_(std::move(dir)), visit_(visit) {}

    Result<ScanSummary> run();

private:
    bool segment(const FoundSegment& found);
    bool record(int fd, const FoundSegment& found, const WalkedRecord& walked);
    void name_holes();
    void name_bad_files(const Listing& listing);

    std::string dir_;
    const std::function<bool(const ScannedRecord&)>& visit_;
    AckTable acks_;
    bool acks_certain_ = true;
    Judged judged_;
    std::map<LaneKey, IntervalSet> seen_;
    std::map<LaneKey, std::uint64_t> first_;
    ScanSummary out_;
};

bool Scan::record(int fd, const FoundSegment& found, const WalkedRecord& walked) {
    const LaneKey key{walked.header.start, found.lane};
    const EndedStart* end = find_start(judged_.starts, key.first);
    ScannedRecord one;
    one.header = walked.header;
    one.committed = end != nullptr && walked.header.group <= end->group;
    const auto acks = acks_.find(key);
    one.acked = acks != acks_.end() && acks->second.received.contains(walked.header.seq);
    auto payload = read_payload(fd, walked.ref());
    if (!payload) return true;  // a hole, named at the end if no other copy fills it
    one.payload = std::move(*payload);
    ++out_.records;
    if (one.committed) {
        seen_[key].insert(walked.header.seq);
    } else {
        ++out_.uncommitted;
    }
    return visit_(one);
}

bool Scan::segment(const FoundSegment& found) {
    const LaneKey key{found.header.start, found.lane};
    const auto fd = open_regular(found.path);
    if (!fd) return true;  // deleted meanwhile
    auto& first = first_.try_emplace(key, found.header.first_seq).first->second;
    first = std::min(first, found.header.first_seq);
    ++out_.segments;
    out_.bytes += found.header.segment_bytes;
    const auto walked = walk_segment(found.path, found.header, false);
    if (!walked) return true;
    for (const WalkedRecord& one : walked->records) {
        if (!record(fd->get(), found, one)) return false;
    }
    return true;
}

void Scan::name_holes() {
    // What was acknowledged and deleted while the walk went on is no hole.
    AckFile ack_file(dir_, out_.spool);
    acks_ = ack_file.load();
    acks_certain_ = acks_certain_ && ack_file.certain();
    for (const auto& [key, first] : first_) {
        const EndedStart* end = find_start(judged_.starts, key.first);
        const std::uint64_t last = end == nullptr ? 0 : end->seq[static_cast<std::size_t>(key.second)];
        IntervalSet acked = acks_[key].received;
        acked.insert(acks_[key].lost);
        const std::uint64_t from = acks_certain_ ? 1 : first;
        if (from > last) continue;
        for (const Interval& hole : seen_[key].missing(from, last)) {
            for (const Interval& part : acked.missing(hole.first, hole.last)) {
                out_.damage.push_back({false, StartId{key.first}, key.second, part.first, part.last, 0,
                                       dir_ + "/" + lane_name(key.second), "records missing or unreadable"});
            }
        }
    }
}

// Torn files at a chain's end hold no records and are no damage.
void Scan::name_bad_files(const Listing& listing) {
    for (const BadFile& file : listing.bad) {
        const auto fd = open_regular(file.path);
        if (!fd || plausible_records(fd->get(), file.bytes).empty()) continue;
        out_.damage.push_back(
            {false, StartId{}, file.lane, 0, 0, file.bytes, file.path, "segment header unreadable"});
    }
}

Result<ScanSummary> Scan::run() {
    auto listing = list_segments(dir_, std::nullopt);
    if (!listing) return std::unexpected(listing.error());
    const auto agreed = agreed_spool(*listing);
    const auto named = read_spool_id(dir_);
    if (!agreed && !named) return fail(Code::not_found, "no spool in this folder");
    out_.spool = agreed ? *agreed : *named;
    if (!agreed) {
        listing = list_segments(dir_, out_.spool);
        if (!listing) return std::unexpected(listing.error());
    }
    AckFile ack_file(dir_, out_.spool);
    acks_ = ack_file.load();
    acks_certain_ = ack_file.certain();
    auto judged = judge(*listing, acks_, false);
    if (!judged) return std::unexpected(judged.error());
    judged_ = std::move(*judged);
    out_.cursors = judged_.cursors;
    for (const auto& chain : listing->chain) {
        for (const FoundSegment& found : chain) {
            if (!segment(found)) return out_;
        }
    }
    name_holes();
    name_bad_files(*listing);
    return out_;
}

}  // namespace

Result<ScanSummary> scan(const std::string& dir, const std::function<bool(const ScannedRecord&)>& visit) {
    return Scan(dir, visit).run();
}

}  // namespace tally::spool
