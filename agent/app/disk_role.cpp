// SPDX-License-Identifier: Apache-2.0
#include "agent/app/disk_role.hpp"

#include <poll.h>
#include <unistd.h>

#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"
#include "agent/parcel/parcel.hpp"

namespace tally::app {

namespace {
constexpr std::int64_t second = 1'000'000'000;
constexpr std::uint64_t fetch_bytes = 8ULL << 20;
constexpr int idle_wait_ms = 100;
}  // namespace

DiskRole::DiskRole(spool::Spool& spool, SpscQueue<intake::Batch>& batches, SpscQueue<parcel::Gap>& losses,
                   uplink::Queues& queues, Reached& reached,
                   int wake_fd, std::function<void()> wake_ring, std::function<void()> wake_uplink)
    : spool_(spool), batches_(batches), losses_(losses), queues_(queues), reached_(reached), wake_fd_(wake_fd), wake_ring_(std::move(wake_ring)),
      wake_uplink_(std::move(wake_uplink)) {
    snapshot_ = spool_.stats();
}

void DiskRole::run() {
    for (;;) {
        const std::int64_t now = monotonic_ns();
        beat_(now);
        const auto moved = poll(now);
        if (!moved) {
            log_error("agent.spool_failed", {{"error", moved.error()}});
            failed_.store(true);
            return;
        }
        if (*moved) continue;
        if (stopping_.load() && batches_.size() == 0 && !held_ && flying_.empty()) break;
        wait();
    }
    if (auto done = spool_.drain(); !done) log_error("agent.drain", {{"error", done.error()}});
    if (auto done = spool_.sweep(); !done) log_error("agent.sweep", {{"error", done.error()}});
}

Result<bool> DiskRole::poll(std::int64_t now) {
    bool moved = false;
    auto appended = append_next();
    if (!appended) return appended;
    auto polled = spool_.poll(now);
    if (!polled) return polled;
    moved = *appended || *polled;
    moved |= advance_durable();
    moved |= take_back();
    moved |= tell_losses();
    auto fed = feed();
    if (!fed) return fed;
    moved |= *fed;
    if (now - swept_ns_ > second) {
        swept_ns_ = now;
        if (auto swept = spool_.sweep(); !swept) log_warn("agent.sweep", {{"error", swept.error()}});
    }
    publish(now);
    return moved;
}

Result<bool> DiskRole::append_next() {
    if (!held_) {
        auto batch = batches_.pop();
        if (!batch) return false;
        const spool::Plan plan = spool_.plan();
        spool::Group group;
        group.number = plan.group;
        std::uint64_t next[lane_count] = {raw(plan.next[0]), raw(plan.next[1]), raw(plan.next[2])};
        for (intake::DraftParcel& draft : batch->parcels) {
            const Seq seq{next[static_cast<std::size_t>(draft.lane)]++};
            parcel::stamp(draft.bytes, {spool_.uuid(), {spool_.start(), draft.lane, seq}, plan.group});
            group.records.push_back({draft.lane, seq, std::make_shared<const Bytes>(std::move(draft.bytes))});
        }
        for (intake::CursorUpdate& c : batch->cursors) group.cursors.push_back({std::move(c.key), std::move(c.value)});
        held_ = std::move(group);
        held_losses_ = batch->losses;
    }
    auto outcome = spool_.append(*held_);
    if (!outcome) return std::unexpected(outcome.error());
    if (*outcome == spool::Append::full) return false;
    for (const spool::NewRecord& r : held_->records) last_seq_[static_cast<std::size_t>(r.lane)] = raw(r.seq);
    Group g;
    std::copy(std::begin(last_seq_), std::end(last_seq_), std::begin(g.last_seq));
    g.losses = held_losses_;
    flying_.push_back(g);
    held_.reset();
    wake_ring_();
    return true;
}

bool DiskRole::advance_durable() {
    const std::uint64_t durable = raw(spool_.durable_group());
    std::uint64_t done = reached_.durable.load(std::memory_order_relaxed);
    if (done >= durable) return false;
    for (; done < durable; ++done) {
        losses_durable(flying_.front().losses);
        unreceived_.push_back(flying_.front());
        flying_.pop_front();
    }
    reached_.durable.store(done, std::memory_order_release);
    advance_acked(unreceived_, reached_.received, false);
    wake_ring_();
    return true;
}

// Damage and parked parcels become gaps: the ring role writes them, and only when they are durable may the spool let go.
bool DiskRole::tell_losses() {
    const auto& damage = spool_.damage();
    for (; damage_told_ < damage.size(); ++damage_told_) {
        const spool::Damage& d = damage[damage_told_];
        parcel::Gap gap;
        gap.time_ns = wall_ns();
        gap.reason = d.parked ? "parked" : "spool_damage";
        gap.spool = spool_.uuid();
        gap.lane_known = d.seq_first != 0;
        gap.start = d.start;
        gap.lane = d.lane;
        gap.seq_first = d.seq_first;
        gap.seq_last = d.seq_last;
        untold_.push_back(std::move(gap));
    }
    bool moved = false;
    while (!untold_.empty()) {
        if (!losses_.push(parcel::Gap(untold_.front()))) break;
        undeclared_.push_back(std::move(untold_.front()));
        untold_.pop_front();
        moved = true;
    }
    if (moved) wake_ring_();
    return moved;
}

void DiskRole::losses_durable(std::uint64_t count) {
    for (; losses_declared_ < count; ++losses_declared_) {
        const parcel::Gap& gap = undeclared_.front();
        if (gap.lane_known) {
            IntervalSet seqs;
            seqs.insert(gap.seq_first, gap.seq_last);
            spool_.declare_lost(gap.start, gap.lane, seqs);
        }
        undeclared_.pop_front();
    }
}

void DiskRole::park(const uplink::Inbound& in) {
    if (!in.payload) return;
    if (auto parked = spool_.park(in.id, in.payload, in.why); !parked) {
        log_error("agent.park", {{"seq", raw(in.id.seq)}, {"error", parked.error()}});
        return;
    }
    // flush() waits for what can still arrive; this cannot, and the gap says so.
    if (in.id.start != spool_.start()) return;
    received_[static_cast<std::size_t>(in.id.lane)].insert(raw(in.id.seq));
    stored_[static_cast<std::size_t>(in.id.lane)].insert(raw(in.id.seq));
}

Result<bool> DiskRole::feed() {
    auto live = feed_lane(Lane::live, queues_.live, next_live_);
    if (!live) return live;
    auto bulk = feed_lane(Lane::bulk, queues_.bulk, next_bulk_);
    if (!bulk) return bulk;
    if (*live || *bulk) wake_uplink_();
    return *live || *bulk;
}

Result<bool> DiskRole::feed_lane(Lane lane, SpscQueue<uplink::Outbound>& queue, std::deque<spool::Fetched>& next) {
    if (next.empty() && queue.size() < queue.capacity() / 2) {
        auto fetched = spool_.fetch(lane, fetch_bytes);
        if (!fetched) return std::unexpected(fetched.error());
        for (spool::Fetched& f : *fetched) next.push_back(std::move(f));
    }
    bool moved = false;
    while (!next.empty()) {
        if (!queue.push({next.front().id, next.front().payload})) break;
        next.pop_front();
        moved = true;
    }
    return moved;
}

bool DiskRole::take_back() {
    bool moved = false;
    while (auto in = queues_.back.pop()) {
        moved = true;
        switch (in->kind) {
            case uplink::Inbound::Kind::received:
                spool_.ack_received(in->start, in->lane, in->seqs, in->receiver);
                if (in->start == spool_.start()) received_[static_cast<std::size_t>(in->lane)].insert(in->seqs);
                break;
            case uplink::Inbound::Kind::stored:
                spool_.ack_stored(in->start, in->lane, in->seqs);
                if (in->start == spool_.start()) stored_[static_cast<std::size_t>(in->lane)].insert(in->seqs);
                break;
            case uplink::Inbound::Kind::refused: park(*in); break;
            case uplink::Inbound::Kind::welcomed:
                spool_.keep_until(in->keep_stored ? spool::KeepUntil::stored : spool::KeepUntil::received);
                spool_.refetch(in->receiver);
                break;
        }
    }
    if (!moved) return false;
    advance_acked(unreceived_, reached_.received, false);
    advance_acked(unstored_, reached_.stored, true);
    wake_ring_();
    return true;
}

void DiskRole::advance_acked(std::deque<Group>& groups, std::atomic<std::uint64_t>& reached, bool stored) {
    const IntervalSet* sets = stored ? stored_ : received_;
    std::uint64_t upto[lane_count];
    for (std::size_t l = 0; l < lane_count; ++l) upto[l] = sets[l].contiguous_from(1);
    std::uint64_t done = reached.load(std::memory_order_relaxed);
    while (!groups.empty()) {
        bool all = true;
        for (std::size_t l = 0; l < lane_count; ++l) all = all && groups.front().last_seq[l] <= upto[l];
        if (!all) break;
        if (!stored) unstored_.push_back(groups.front());
        groups.pop_front();
        ++done;
    }
    reached.store(done, std::memory_order_release);
}

void DiskRole::publish(std::int64_t now) {
    if (now - published_ns_ < second / 5) return;
    published_ns_ = now;
    spool::Stats s = spool_.stats();
    const std::lock_guard lock(snapshot_mutex_);
    snapshot_ = std::move(s);
}

spool::Stats DiskRole::snapshot() const {
    const std::lock_guard lock(snapshot_mutex_);
    return snapshot_;
}

void DiskRole::wait() {
    pollfd fds[2] = {{wake_fd_, POLLIN, 0}, {spool_.completion_fd(), POLLIN, 0}};
    const nfds_t n = fds[1].fd >= 0 ? 2 : 1;
    const int timeout = spool_.groups_in_flight() > 0 && n == 1 ? 1 : idle_wait_ms;
    ::poll(fds, n, timeout);
    std::uint64_t count = 0;
    if ((fds[0].revents & POLLIN) != 0) {
        [[maybe_unused]] const ssize_t r = ::read(wake_fd_, &count, sizeof count);
    }
}

}  // namespace tally::app
