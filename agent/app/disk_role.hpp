// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The disk role of the agent: names and commits batches, feeds the uplink, applies its acknowledgements.
// Flow    batches queue -> stamp -> spool -> uplink queues; uplink back queue -> spool acks -> Reached.
// Threads One thread calls run(). stop() and snapshot(): any.
// Owns    The spool, between start of run() and its end.
// Invariants
//   I1  Batch n becomes group n: batches come in order and are never skipped.
//   I2  received (stored) of Reached is the highest group all of whose parcels, and all before it, are received (stored).
// Errors  A spool that cannot open any segment any more is fatal: failed() is set and run() returns.

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "agent/app/ring_role.hpp"
#include "transport/uplink/uplink.hpp"

namespace tally::app {

class DiskRole {
public:
    DiskRole(spool::Spool& spool, SpscQueue<intake::Batch>& batches, SpscQueue<parcel::Gap>& losses, uplink::Queues& queues, Reached& reached, int wake_fd,
             std::function<void()> wake_ring, std::function<void()> wake_uplink);

    void run();
    void stop() { stopping_.store(true); }  // after the ring role has ended
    std::int64_t beat_ns() const { return beat_.last_ns(); }
    bool failed() const { return failed_.load(); }
    spool::Stats snapshot() const;

private:
    struct Group {
        std::uint64_t last_seq[lane_count] = {0, 0, 0};  // of this start, up to and with the group
        std::uint64_t losses = 0;                        // declared by this and earlier groups
    };

    Result<bool> poll(std::int64_t now);
    Result<bool> append_next();
    bool advance_durable();
    bool tell_losses();
    void losses_durable(std::uint64_t count);
    Result<bool> feed();
    Result<bool> feed_lane(Lane lane, SpscQueue<uplink::Outbound>& queue, std::deque<spool::Fetched>& next);
    bool take_back();
    void park(const uplink::Inbound& in);
    void advance_acked(std::deque<Group>& groups, std::atomic<std::uint64_t>& reached, bool stored);
    void publish(std::int64_t now);
    void wait();

    spool::Spool& spool_;
    SpscQueue<intake::Batch>& batches_;
    SpscQueue<parcel::Gap>& losses_;
    uplink::Queues& queues_;
    Reached& reached_;
    int wake_fd_;
    std::function<void()> wake_ring_;
    std::function<void()> wake_uplink_;

    std::optional<spool::Group> held_;  // stamped, the spool was full
    std::uint64_t held_losses_ = 0;
    std::size_t damage_told_ = 0;            // of the spool's damage()
    std::deque<parcel::Gap> untold_;         // losses the ring role has no room for yet
    std::deque<parcel::Gap> undeclared_;     // told, their gap is not durable
    std::uint64_t losses_declared_ = 0;
    std::uint64_t last_seq_[lane_count] = {0, 0, 0};
    std::deque<Group> flying_, unreceived_, unstored_;
    std::deque<spool::Fetched> next_live_, next_bulk_;
    IntervalSet received_[lane_count], stored_[lane_count];
    std::int64_t swept_ns_ = 0;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> failed_{false};
    Beat beat_;

    mutable std::mutex snapshot_mutex_;
    spool::Stats snapshot_;
    std::int64_t published_ns_ = 0;
};

}  // namespace tally::app
