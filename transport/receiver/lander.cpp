// SPDX-License-Identifier: Apache-2.0
#include "transport/receiver/lander.hpp"

#include <algorithm>
#include <deque>

#include "agent/base/log.hpp"
#include "agent/parcel/parcel.hpp"

namespace tally::receiver {

namespace {

constexpr std::uint64_t group_bytes_max = 4U << 20;
constexpr std::size_t group_parcels_max = 256;
constexpr std::int64_t sweep_interval_ns = 1'000'000'000;
constexpr std::uint64_t fetch_bytes = 8U << 20;
constexpr std::uint32_t full_retry_ms = 1000;

struct Waiter {
    SessionKey session = 0;
    std::uint64_t bytes = 0;
};
struct OpenGroup {
    std::vector<Arrival> parcels;
    std::uint64_t bytes = 0;
};
struct FlyingGroup {
    GroupNo number{};
    std::vector<std::pair<LaneKey, ParcelId>> parcels;
};

class LanderImpl final : public Lander {
public:
    LanderImpl(const LanderOptions& options, LanderQueues& queues, std::unique_ptr<spool::Spool> landing)
        : options_(options), queues_(queues), landing_(std::move(landing)) {}

    Status restore() {
        for (const auto& [key, value] : landing_->cursors()) TALLY_TRY(dedup_.restore(key, value));
        if (options_.has_sink)
            for (const LaneKey& key : dedup_.lanes()) restored_[key] = dedup_.received(key);
        counts_.landed.store(not_stored());
        return {};
    }

    Result<bool> poll(std::int64_t now) override {
        bool moved = flush_answers();
        moved |= take_arrivals();
        auto cut = cut_group();
        if (!cut) return std::unexpected(cut.error());
        auto polled = landing_->poll(now);
        if (!polled) return std::unexpected(polled.error());
        moved |= *cut || *polled;
        moved |= settle_durable();
        if (options_.has_sink) {
            moved |= take_stored();
            auto fed = feed_sink();
            if (!fed) return std::unexpected(fed.error());
            moved |= *fed;
        }
        if (now - swept_ns_ > sweep_interval_ns) {
            swept_ns_ = now;
            note_damage();
            TALLY_TRY(landing_->sweep());
            if (options_.has_sink) count_stored();  // what was declared lost is waited for no longer
        }
        if (flush_answers() || moved) return true;
        return false;
    }

    Status drain() override {
        while (!open_.parcels.empty()) {
            auto cut = cut_group();
            if (!cut) return std::unexpected(cut.error());
            if (!*cut) break;
        }
        TALLY_TRY(landing_->drain());
        settle_durable();
        if (options_.has_sink) take_stored();
        flush_answers();
        return landing_->sweep();
    }

    spool::Spool& landing() override { return *landing_; }
    LanderStats stats() const override { return stats_; }
    const LandedCounts& counts() const override { return counts_; }

private:
    bool take_arrivals() {
        bool moved = false;
        while (open_.bytes < group_bytes_max && open_.parcels.size() < group_parcels_max) {
            auto arrival = queues_.arrivals.pop();
            if (!arrival) break;
            moved = true;
            if (arrival->kind == Arrival::Kind::hello) {
                answer_hello(*arrival);
            } else {
                take_parcel(std::move(*arrival));
            }
        }
        return moved;
    }

    void answer_hello(const Arrival& a) {
        Answer answer;
        answer.kind = Answer::Kind::known;
        answer.session = a.session;
        answer.spool = a.spool;
        for (const auto& [start, lane] : a.lanes) {
            wire::LaneSets sets;
            sets.start = start;
            sets.lane = lane;
            const LaneKey key{a.spool, start, lane};
            sets.received = dedup_.received(key);
            sets.stored = stored_of(key);
            answer.sets.push_back(std::move(sets));
        }
        say(std::move(answer));
    }

    void take_parcel(Arrival a) {
        const LaneKey key{a.spool, a.id.start, a.id.lane};
        if (!dedup_.has_room(key, a.id.seq))
            return nack(a.session, a.spool, a.id, a.payload->size(), wire::Reason::busy, "too many holes in this lane");
        switch (dedup_.judge(key, a.id.seq, a.xxh3)) {
            case Verdict::fresh:
                dedup_.begin(key, a.id.seq, a.xxh3);
                pending_[{key, a.id.seq}].push_back({a.session, a.payload->size()});
                open_.bytes += a.payload->size();
                open_.parcels.push_back(std::move(a));
                return;
            case Verdict::duplicate:
                ++stats_.duplicates;
                return answer_one(Answer::Kind::received, a.session, a.spool, a.id, a.payload->size());
            case Verdict::pending:
                ++stats_.duplicates;
                pending_[{key, a.id.seq}].push_back({a.session, a.payload->size()});
                return;
            case Verdict::conflict: break;
        }
        ++stats_.conflicts;
        log_error("receiver.conflict", {{"spool", a.spool.text()}, {"lane", lane_name(a.id.lane)}, {"seq", raw(a.id.seq)}});
        answer_one(Answer::Kind::refused, a.session, a.spool, a.id, a.payload->size(), wire::Reason::conflict,
                   "the same identity was landed with other content");
    }

    Result<bool> cut_group() {
        if (open_.parcels.empty()) return false;
        if (landing_->groups_in_flight() >= options_.landing.groups_in_flight_max) return false;
        spool::Group group;
        const spool::Plan plan = landing_->plan();
        group.number = plan.group;
        FlyingGroup flying{plan.group, {}};
        std::map<LaneKey, bool> touched;
        std::uint64_t seq = raw(plan.next[static_cast<std::size_t>(Lane::live)]);
        for (const Arrival& a : open_.parcels) {
            group.records.push_back({Lane::live, Seq{seq++}, a.payload});
            const LaneKey key{a.spool, a.id.start, a.id.lane};
            flying.parcels.push_back({key, a.id});
            touched[key] = true;
        }
        for (const auto& [key, yes] : touched) group.cursors.push_back({Dedup::cursor_key(key), dedup_.cursor_value(key)});
        auto appended = landing_->append(std::move(group));
        if (!appended) return std::unexpected(appended.error());
        if (*appended == spool::Append::full) {
            refuse_full();
        } else {
            flying_.push_back(std::move(flying));
        }
        open_ = {};
        return true;
    }

    void refuse_full() {
        for (const Arrival& a : open_.parcels) {
            const LaneKey key{a.spool, a.id.start, a.id.lane};
            dedup_.abort(key, a.id.seq);
            const auto node = pending_.extract({key, a.id.seq});
            for (const Waiter& w : node.mapped()) {
                nack(w.session, a.spool, a.id, w.bytes, wire::Reason::full, "the landing has no room");
            }
        }
        log_warn("receiver.landing_full", {{"bytes", landing_->stats().bytes_on_disk}});
    }

    void nack(SessionKey session, const Uuid& spool, const ParcelId& id, std::uint64_t bytes, wire::Reason reason, const char* why) {
        Answer answer;
        answer.kind = Answer::Kind::nack;
        answer.session = session;
        answer.spool = spool;
        answer.id = id;
        answer.bytes = bytes;
        answer.reason = reason;
        answer.retry_after_ms = full_retry_ms;
        answer.why = why;
        say(std::move(answer));
    }

    bool settle_durable() {
        bool moved = false;
        while (!flying_.empty() && flying_.front().number <= landing_->durable_group()) {
            for (const auto& [key, id] : flying_.front().parcels) {
                dedup_.commit(key, id.seq);
                ++stats_.parcels;
                counts_.landed.fetch_add(1);
                const auto node = pending_.extract({key, id.seq});
                for (const Waiter& w : node.mapped()) {
                    stats_.bytes += w.bytes;
                    answer_one(Answer::Kind::received, w.session, key.spool, id, w.bytes);
                }
            }
            flying_.pop_front();
            moved = true;
        }
        return moved;
    }

    // Landed records go to the sink in landing order; their origin is remembered until they are stored.
    Result<bool> feed_sink() {
        bool moved = false;
        while (!waiting_.empty() && queues_.landed.push(std::move(waiting_.front()))) {
            waiting_.pop_front();
            moved = true;
        }
        if (waiting_.empty() && sink_bytes_ < options_.sink_window_bytes) {
            auto records = landing_->fetch(Lane::live, fetch_bytes);
            if (!records) return std::unexpected(records.error());
            if (records->empty()) caught_up();
            for (spool::Fetched& r : *records) {
                const auto peeked = parcel::peek(*r.payload);
                if (!peeked) {
                    log_error("receiver.landed_unreadable", {{"seq", raw(r.id.seq)}, {"error", peeked.error()}});
                    unreadable_ = true;
                    continue;
                }
                const parcel::Identity& origin = peeked->identity;
                outstanding_[{r.id.start, r.id.seq}] = {LaneKey{origin.spool, origin.id.start, origin.id.lane}, raw(origin.id.seq),
                                                        r.payload->size()};
                sink_bytes_ += r.payload->size();
                waiting_.push_back({r.id.start, r.id.seq, std::move(r.payload)});
                moved = true;
            }
        }
        if (moved && queues_.wake_sink) queues_.wake_sink();
        return moved;
    }

    bool take_stored() {
        bool moved = false;
        while (auto notice = queues_.stored.pop()) {
            moved = true;
            std::map<LaneKey, IntervalSet> by_lane;
            for (const Interval& i : notice->seqs.intervals()) {
                auto it = outstanding_.lower_bound({notice->start, Seq{i.first}});
                while (it != outstanding_.end() && it->first.first == notice->start && raw(it->first.second) <= i.last) {
                    by_lane[it->second.key].insert(it->second.seq);
                    sink_bytes_ -= it->second.bytes;
                    ++stats_.stored_parcels;
                    it = outstanding_.erase(it);
                }
            }
            landing_->ack_received(notice->start, Lane::live, notice->seqs);
            landing_->ack_stored(notice->start, Lane::live, notice->seqs);
            announce_stored(by_lane);
        }
        if (moved) count_stored();
        return moved;
    }

    // Committed records the sink has not taken, as the landing's own acks say; damage never leaves this count by itself.
    std::uint64_t not_stored() const { return landing_->stats().lanes[static_cast<std::size_t>(Lane::live)].parcels; }

    void count_stored() { counts_.stored.store(counts_.landed.load() - std::min(counts_.landed.load(), not_stored())); }

    void announce_stored(const std::map<LaneKey, IntervalSet>& by_lane) {
        std::map<Uuid, std::vector<wire::LaneSets>> by_spool;
        for (const auto& [key, seqs] : by_lane) {
            stored_[key].insert(seqs);
            wire::LaneSets sets;
            sets.start = key.start;
            sets.lane = key.lane;
            sets.stored = stored_of(key);
            by_spool[key.spool].push_back(std::move(sets));
        }
        for (auto& [spool, sets] : by_spool) {
            Answer answer;
            answer.kind = Answer::Kind::stored;
            answer.spool = spool;
            answer.sets = std::move(sets);
            say(std::move(answer));
        }
    }

    // Once the backlog of earlier lives was read: whatever they landed and is not outstanding now has been stored,
    // for a record leaves the landing no other way (I2). Where the landing is damaged that cannot be told, and nothing is
    // derived: hosts that wait for `stored` keep their data.
    void caught_up() {
        if (restored_.empty() || unreadable_ || !landing_->damage().empty()) return;
        std::map<LaneKey, IntervalSet> open;
        for (const auto& [landing, origin] : outstanding_) open[origin.key].insert(origin.seq);
        for (const auto& [key, received] : restored_)
            for (const Interval& i : received.intervals())
                for (const Interval& part : open[key].missing(i.first, i.last)) stored_[key].insert(part.first, part.last);
        restored_.clear();
    }
    // What the landing lost cannot be had again; it was said in the log, and its segments need not stay for it.
    void note_damage() {
        const auto& damage = landing_->damage();
        for (; damage_noted_ < damage.size(); ++damage_noted_) {
            const spool::Damage& d = damage[damage_noted_];
            log_error("receiver.landing_damage", {{"file", d.file}, {"what", d.what}, {"seq_first", d.seq_first}, {"seq_last", d.seq_last}});
            if (d.seq_first == 0) continue;
            IntervalSet seqs;
            seqs.insert(d.seq_first, d.seq_last);
            landing_->declare_lost(d.start, d.lane, seqs);
        }
    }
    IntervalSet stored_of(const LaneKey& key) const {
        const auto it = stored_.find(key);
        return it == stored_.end() ? IntervalSet{} : it->second;
    }

    void answer_one(Answer::Kind kind, SessionKey session, const Uuid& spool, const ParcelId& id, std::uint64_t bytes,
                    wire::Reason reason = wire::Reason::none, const char* why = "") {
        Answer answer;
        answer.kind = kind;
        answer.session = session;
        answer.spool = spool;
        answer.id = id;
        answer.bytes = bytes;
        answer.reason = reason;
        answer.why = why;
        say(std::move(answer));
    }
    void say(Answer answer) { answers_.push_back(std::move(answer)); }
    bool flush_answers() {
        bool moved = false;
        while (!answers_.empty() && queues_.answers.push(std::move(answers_.front()))) {
            answers_.pop_front();
            moved = true;
        }
        if (moved && queues_.wake_net) queues_.wake_net();
        return moved;
    }

    struct Origin {
        LaneKey key;
        std::uint64_t seq = 0;
        std::uint64_t bytes = 0;
    };

    const LanderOptions options_;
    LanderQueues& queues_;
    std::unique_ptr<spool::Spool> landing_;
    Dedup dedup_;
    OpenGroup open_;
    std::deque<FlyingGroup> flying_;
    std::map<std::pair<LaneKey, Seq>, std::vector<Waiter>> pending_;
    std::deque<Answer> answers_;
    std::deque<Landed> waiting_;
    std::map<std::pair<StartId, Seq>, Origin> outstanding_;
    std::map<LaneKey, IntervalSet> stored_;
    std::uint64_t sink_bytes_ = 0;
    std::int64_t swept_ns_ = 0;
    std::size_t damage_noted_ = 0;
    bool unreadable_ = false;
    std::map<LaneKey, IntervalSet> restored_;  // received by earlier lives; empty once caught up
    LanderStats stats_;
    LandedCounts counts_;
};

}  // namespace

Result<std::unique_ptr<Lander>> Lander::open(const LanderOptions& options, LanderQueues& queues) {
    LanderOptions adjusted = options;
    adjusted.landing.keep_until = spool::KeepUntil::stored;
    adjusted.landing.keep_acked = !options.has_sink;
    auto landing = spool::Spool::open(adjusted.landing);
    if (!landing) return std::unexpected(landing.error());
    auto made = std::make_unique<LanderImpl>(adjusted, queues, std::move(*landing));
    TALLY_TRY(made->restore());
    return std::unique_ptr<Lander>(std::move(made));
}

}  // namespace tally::receiver
