// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The state of an open spool that its parts share: chains, books, budget, damage, quarantine.
// Flow    recovery fills it; writer, fetcher and sweeper work on it.
// Threads role: disk.
// Owns    All segments; a Segment* is valid until sweep deletes it, which never happens while it is written or current.

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "spool/books.hpp"
#include "spool/recovery.hpp"
#include "spool/seams.hpp"
#include "spool/segment.hpp"

namespace tally::spool {

// Who may use the bytes kept back from ordinary groups.
enum class Need : std::uint8_t { ordinary, reserve, opening };

// Committed payloads of this life, newest kept, each handed out at most once.
class PayloadCache {
public:
    explicit PayloadCache(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}
    void put(Lane lane, std::uint64_t seq, const Payload& payload);
    Payload take(Lane lane, std::uint64_t seq);

private:
    std::uint64_t bytes_max_;
    std::uint64_t bytes_ = 0;
    std::deque<std::pair<Lane, std::uint64_t>> order_;
    std::map<std::uint64_t, Payload> lanes_[lane_count];
};

class Store {
public:
    Store(const Options& options_in, const Seams& seams_in);

    // --- space ---
    std::uint64_t bytes_on_disk() const { return segment_bytes + side_bytes + ack_file.bytes(); }
    bool space_for(std::uint64_t bytes, Need need) const;
    // Bytes the next segment of a lane takes, if it has to hold a record of this size; `nth` = how many were opened
    // before it in the same step.
    std::uint64_t next_segment_bytes(Lane lane, std::uint64_t record, std::uint32_t nth = 0) const;
    std::uint64_t header_bytes(Lane lane) const;
    // Durable when it returns. Code::full: no space, nothing was made.
    Result<Segment*> open_segment(Lane lane, std::uint64_t record, std::uint64_t first_seq, Need need);

    // --- chains ---
    // After the last add() or remove() of a step: relink(). The file is the caller's business.
    Segment* add(std::unique_ptr<Segment> segment);
    void remove(Lane lane, std::uint64_t number);
    void relink(Lane lane);
    bool starts_here(std::uint64_t which) const { return segments_of_.contains(which); }  // has segments
    // Sequences a segment should hold according to the headers: [first, second], empty when first > second.
    std::pair<std::uint64_t, std::uint64_t> expected(const Segment& segment) const;
    // Whether this start's group is committed.
    bool committed(std::uint64_t start, std::uint64_t group) const;
    // Every sequence that can lie in this segment is in this set of its book, whatever its records are.
    bool all_from(const Segment& segment, IntervalSet Book::* set) const;
    // Walks the segment unless its index is there; `walk` may come from recovery.
    Status load_index(Segment& segment, const Walk* walk = nullptr);

    // --- what went wrong ---
    void judge_damage(Segment& segment, const Walk& walk);
    // A later segment of the lane holds this record too.
    bool copy_behind(const Segment& segment, std::uint64_t seq) const;
    void lose_record(Segment& segment, const RecordRef& record, std::string_view why);
    void name_parked(const ParcelId& id);
    Status quarantine_file(const BadFile& file);
    void quarantine_range(const Segment& segment, std::uint64_t offset, std::uint64_t bytes);

    Options options;
    const Seams& seams;
    Uuid uuid;
    StartId start{};
    std::map<std::uint64_t, std::unique_ptr<Segment>> chain[lane_count];
    std::uint64_t number_next[lane_count] = {1, 1, 1};
    std::uint64_t growth_bytes[lane_count] = {};
    Books books;
    PayloadCache cache;
    AckFile ack_file;
    std::vector<EndedStart> ended;
    CursorTable cursors;
    std::uint64_t durable = 0;
    std::uint64_t durable_saved = 0;  // what the ack file on disk says of this life
    std::vector<Damage> damage;
    std::set<ParcelId> parked;

    // Where fetch stands, per lane.
    struct Place {
        std::uint64_t number = 0;
        std::uint64_t offset = 0;
    };
    Place fetch_at[lane_count];

    std::uint64_t segment_bytes = 0;
    std::uint64_t side_bytes = 0;  // parked and quarantine
    std::uint64_t quarantined = 0;
    std::uint64_t torn_tails = 0;
    std::uint64_t write_errors = 0;

private:
    void look_back(const Segment& segment);
    // Expected sequences that were met nowhere and are not settled.
    std::vector<Interval> holes(const Segment& segment) const;
    std::map<std::uint64_t, std::uint32_t> segments_of_;  // by start
    std::vector<EndedStart> starts_to_name() const;
};

}  // namespace tally::spool
