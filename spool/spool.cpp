// SPDX-License-Identifier: Apache-2.0
#include "spool/spool.hpp"

#include <algorithm>

#include "agent/base/log.hpp"
#include "spool/fetch.hpp"
#include "spool/opening.hpp"
#include "spool/paths.hpp"
#include "spool/seams.hpp"
#include "spool/store.hpp"
#include "spool/sweep.hpp"
#include "spool/writer.hpp"

namespace tally::spool {

namespace {

constexpr Lane lanes[] = {Lane::live, Lane::bulk, Lane::file};

class SpoolOnDisk final : public Spool {
public:
    SpoolOnDisk(const Options& options, Seams seams) : seams_(std::move(seams)), store_(options, seams_) {}

    Status open();

    const Uuid& uuid() const override { return store_.uuid; }
    StartId start() const override { return store_.start; }
    const std::vector<EndedStart>& ended_starts() const override { return store_.ended; }
    const CursorTable& cursors() const override { return store_.cursors; }
    const std::vector<Damage>& damage() const override { return store_.damage; }

    bool has_room(std::uint64_t payload_bytes) const override { return writer_->has_room(payload_bytes); }
    Plan plan() const override { return writer_->plan(); }
    Result<Append> append(const Group& group) override { return writer_->append(group); }
    Result<bool> poll(std::int64_t monotonic_now_ns) override { return writer_->poll(monotonic_now_ns); }
    GroupNo durable_group() const override { return GroupNo{store_.durable}; }
    std::size_t groups_in_flight() const override { return writer_->in_flight(); }
    int completion_fd() const override { return writer_->event_fd(); }
    Status drain() override { return writer_->drain(); }

    Result<std::vector<Fetched>> fetch(Lane lane, std::uint64_t bytes_max) override {
        return fetcher_.fetch(lane, bytes_max);
    }
    std::vector<Kept> kept() const override;

    void ack_received(StartId start, Lane lane, const IntervalSet& seqs, const Uuid& receiver = {}) override {
        if (store_.books.received({raw(start), lane}, seqs, receiver)) sweeper_.acks_changed();
    }
    void declare_lost(StartId start, Lane lane, const IntervalSet& seqs) override {
        if (store_.books.lost({raw(start), lane}, seqs)) sweeper_.acks_changed();
    }
    void keep_until(KeepUntil level) override {
        if (store_.books.keep_until() == level) return;
        store_.books.keep_until(level);
        sweeper_.acks_changed();
    }
    void refetch(const Uuid& receiver) override;
    void ack_stored(StartId start, Lane lane, const IntervalSet& seqs) override {
        if (store_.books.stored({raw(start), lane}, seqs)) sweeper_.acks_changed();
    }
    IntervalSet received(StartId start, Lane lane) const override {
        const Book* book = store_.books.find(raw(start), lane);
        return book == nullptr ? IntervalSet{} : book->acks.received;
    }
    IntervalSet stored(StartId start, Lane lane) const override {
        const Book* book = store_.books.find(raw(start), lane);
        return book == nullptr ? IntervalSet{} : book->acks.stored;
    }
    Status park(const ParcelId& id, const Payload& payload, std::string_view reason) override;
    Status sweep() override { return sweeper_.sweep(); }
    Stats stats() const override;

private:
    LaneStats lane_stats(Lane lane) const;

    Seams seams_;
    Fd lock_;  // released last
    Store store_;
    std::unique_ptr<Writer> writer_;
    Fetcher fetcher_{store_};
    Sweeper sweeper_{store_};
};

Status SpoolOnDisk::open() {
    TALLY_TRY(check_options(store_.options));
    auto lock = lock_spool(store_.options);
    if (!lock) return std::unexpected(lock.error());
    lock_ = std::move(*lock);
    auto live = recover(store_);
    if (!live) return std::unexpected(live.error());
    auto writer = Writer::open(store_);
    if (!writer) return std::unexpected(writer.error());
    writer_ = std::move(*writer);
    writer_->adopt(*live);
    // A life that died at once left an empty segment; a hundred of them must not fill the disk.
    if (auto swept = sweeper_.sweep(); !swept) log_warn("spool.sweep_failed", {{"error", swept.error()}});
    log_info("spool.open", {{"dir", store_.options.dir},
                            {"spool", store_.uuid.text()},
                            {"starts", store_.ended.size()},
                            {"bytes", store_.bytes_on_disk()},
                            {"damage", store_.damage.size()},
                            {"engine", writer_->engine_name()},
                            {"reason", writer_->engine_reason()}});
    return {};
}

std::vector<Spool::Kept> SpoolOnDisk::kept() const {
    std::vector<Kept> out;
    for (const Lane lane : lanes) {
        std::map<std::uint64_t, std::uint64_t> oldest;
        for (const auto& [number, segment] : store_.chain[static_cast<std::size_t>(lane)]) {
            oldest.try_emplace(segment->header.start, std::min(segment->header.first_seq, segment->seq_end));
        }
        for (const auto& [which, first] : oldest) {
            const Book* book = store_.books.find(which, lane);
            if (book != nullptr && book->last >= first)
                out.push_back({StartId{which}, lane, first, book->last});
        }
    }
    return out;
}

Status SpoolOnDisk::park(const ParcelId& id, const Payload& payload, std::string_view reason) {
    const std::string path = store_.options.dir + "/parked/" + parked_name(id);
    const std::uint64_t bytes = payload->size() + reason.size();
    if (!store_.parked.contains(id)) {
        if (!store_.space_for(bytes, Need::reserve))
            return fail(Code::full, "no space to park a record", bytes);
        store_.side_bytes += bytes;
    }
    TALLY_TRY(write_file_atomic(path + ".txt", as_bytes(reason)));
    TALLY_TRY(write_file_atomic(path + ".parcel", *payload));
    if (store_.parked.insert(id).second) store_.name_parked(id);
    return {};
}

void SpoolOnDisk::refetch(const Uuid& receiver) {
    if (store_.books.keep_until() != KeepUntil::stored) return;
    for (const auto& [key, book] : store_.books.all()) {
        if (book.acks.receiver == receiver) continue;
        Book& mine = store_.books.of(key.first, key.second);
        bool again = false;
        for (const Interval& part : book.acks.received.intervals()) {
            for (const Interval& hole : book.settled.missing(part.first, part.last)) {
                mine.fetched.erase(hole.first, hole.last);
                again = true;
            }
        }
        if (again) store_.fetch_at[static_cast<std::size_t>(key.second)] = {};
    }
}

LaneStats SpoolOnDisk::lane_stats(Lane lane) const {
    LaneStats out;
    const Book* own = store_.books.find(raw(store_.start), lane);
    out.durable_seq = own->last;
    out.acked_seq = own->acks.received.contiguous_from(1);
    for (const auto& [number, segment] : store_.chain[static_cast<std::size_t>(lane)]) {
        const Book* book = store_.books.find(segment->header.start, lane);
        const auto [first, end] = store_.expected(*segment);
        const std::uint64_t last = std::min(end, book == nullptr ? 0 : book->last);
        if (book == nullptr || first > last) continue;
        std::uint64_t unacked = 0;
        for (const Interval& part : book->settled.missing(first, last)) unacked += part.last - part.first + 1;
        if (unacked == 0) continue;
        const std::uint64_t bytes = segment->known
                                        ? segment->payload_bytes
                                        : segment->header.segment_bytes - segment->header.header_bytes;
        out.parcels += unacked;
        out.bytes += static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(unacked) /
                                                static_cast<double>(last - first + 1));
        if (out.oldest_unacked_ns == 0) out.oldest_unacked_ns = segment->header.created_ns;
    }
    return out;
}

Stats SpoolOnDisk::stats() const {
    Stats out;
    out.bytes_on_disk = store_.bytes_on_disk();
    out.budget_bytes = store_.options.budget_bytes;
    out.parked = store_.parked.size();
    out.quarantined = store_.quarantined;
    out.torn_tails = store_.torn_tails;
    out.write_errors = store_.write_errors;
    out.engine = writer_->engine_name();
    out.engine_reason = writer_->engine_reason();
    for (const Lane lane : lanes) out.lanes[static_cast<std::size_t>(lane)] = lane_stats(lane);
    return out;
}

}  // namespace

Result<std::unique_ptr<Spool>> open_with(const Options& options, const Seams& seams) {
    auto spool = std::make_unique<SpoolOnDisk>(options, seams);
    TALLY_TRY(spool->open());
    return std::unique_ptr<Spool>(std::move(spool));
}

Result<std::unique_ptr<Spool>> Spool::open(const Options& options) {
    return open_with(options, real_seams());
}

}  // namespace tally::spool
