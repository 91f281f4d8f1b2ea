// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What lies in the lane folders of a spool: segments with a valid header, and everything else.
// Threads Any; changes nothing.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "spool/segment.hpp"

namespace tally::spool {

struct FoundSegment {
    Lane lane = Lane::live;
    std::uint64_t number = 0;
    std::string path;
    SegmentHeader header{};
    std::vector<EndedStart> starts;
};
struct BadFile {
    Lane lane = Lane::live;
    std::uint64_t number = 0;  // 0: the name is not a segment's
    std::string path;
    std::uint64_t bytes = 0;
    bool regular = false;
};
struct Listing {
    std::vector<FoundSegment> chain[lane_count];  // by number
    std::vector<BadFile> bad;
    std::uint64_t number_highest[lane_count] = {};  // of any file with a segment's name, quarantine included
};
// With `spool`, segments of others are bad files; without, whatever is valid is taken.
Result<Listing> list_segments(const std::string& dir, const std::optional<Uuid>& spool);

// The UUID in spool.id, if the file is what it should be.
std::optional<Uuid> read_spool_id(const std::string& dir);
// The UUID that all segments agree on.
std::optional<Uuid> agreed_spool(const Listing& listing);

}  // namespace tally::spool
