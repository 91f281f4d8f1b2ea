// SPDX-License-Identifier: Apache-2.0
#include "spool/sweep.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/base/log.hpp"
#include "spool/fault_point.hpp"
#include "spool/paths.hpp"

namespace tally::spool {

namespace {
constexpr std::uint32_t walks_max = 16;
constexpr std::uint32_t deletes_max = 64;  // unlinking 16 MiB takes a millisecond or two
}  // namespace

bool Sweeper::covered(Segment& segment) {
    const bool keep = store_.options.keep_acked;
    if (!keep && store_.all_from(segment, &Book::released)) return true;
    const auto [first, last] = store_.expected(segment);
    const Book* book = store_.books.find(segment.header.start, segment.lane);
    if (first <= last && (keep || book == nullptr || !book->released.missing(first, last).empty()))
        return false;
    if (!segment.known) {
        if (walks_left_ == 0) return false;
        --walks_left_;
        if (!store_.load_index(segment)) return false;
        if (store_.fetch_at[static_cast<std::size_t>(segment.lane)].number != segment.number) {
            segment.index = {};
            segment.indexed = false;
        }
    }
    if (segment.records == 0) return true;
    book = store_.books.find(segment.header.start, segment.lane);
    return !keep && book != nullptr && book->released.missing(segment.seq_min, segment.seq_max).empty();
}

bool Sweeper::deletable(Segment& segment) {
    const auto& live = store_.chain[0];
    if (segment.fd) return false;  // the writer still holds it
    const Segment& newest = *live.rbegin()->second;
    if (&newest == &segment) return false;
    if (segment.own) {
        if (segment.group_max > std::max(newest.durable_claimed, store_.durable_saved)) return false;
        if (segment.lane == Lane::live && segment.group_max > newest.header.committed_group) return false;
    }
    return covered(segment);
}

Status Sweeper::delete_covered(Lane lane) {
    bool deleted = false;
    Status result;
    auto& chain = store_.chain[static_cast<std::size_t>(lane)];
    for (auto it = chain.begin(); it != chain.end() && deletes_left_ > 0;) {
        Segment& segment = *it->second;
        ++it;
        if (!deletable(segment)) continue;
        if (::unlink(segment.path.c_str()) != 0 && errno != ENOENT) {
            result = fail_errno("unlink segment");
            break;
        }
        fault_point("unlink-done");
        deleted = true;
        --deletes_left_;
        store_.remove(lane, segment.number);
    }
    if (!deleted) return result;
    // Not sooner: until then a segment's expected range ends before the one deleted behind it, and both are covered.
    store_.relink(lane);
    TALLY_TRY(fsync_dir(lane_dir(store_.options.dir, lane)));
    return result;
}

// A start without segments has nothing that could be sent again.
void Sweeper::forget_starts() {
    std::vector<LaneKey> gone;
    for (const auto& [key, book] : store_.books.all()) {
        if (key.first != raw(store_.start) && !store_.starts_here(key.first)) gone.push_back(key);
    }
    for (const LaneKey& key : gone) store_.books.forget(key);
}

Status Sweeper::sweep() {
    // Also when only the durable group moved: once a lane is quiet nothing else would say that it is durable.
    if (dirty_ || store_.durable != store_.durable_saved) {
        TALLY_TRY(store_.ack_file.save(store_.books.table(raw(store_.start), store_.durable), store_.books.keep_until()));
        store_.durable_saved = store_.durable;
        dirty_ = false;
    }
    walks_left_ = walks_max;
    deletes_left_ = deletes_max;
    for (const Lane lane : {Lane::bulk, Lane::file, Lane::live}) TALLY_TRY(delete_covered(lane));
    forget_starts();
    return {};
}

}  // namespace tally::spool
