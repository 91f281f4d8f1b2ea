// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The ring role: attaches rings, reads them, cuts batches, and gives durable space back.
// Flow    attach server + rings -> intake -> batches queue -> disk role; group positions -> ring words.
// Threads One thread calls run(). stop() and snapshot(): any.
// Owns    Rings, consumers, intake, the attach server. The service manager keeps a copy of each ring's descriptors meanwhile.
// Invariants
//   I1  A ring's tail moves only to positions of batches whose group is durable.
//   I2  When the batches queue is full nothing is read: backpressure reaches the trainers.

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "agent/app/service.hpp"
#include "agent/base/spsc.hpp"
#include "agent/intake/intake.hpp"
#include "agent/ring/attach.hpp"
#include "agent/ring/consumer.hpp"
#include "spool/spool.hpp"

namespace tally::app {

// Group numbers reached, written by the disk role; batch n is group n.
struct Reached {
    std::atomic<std::uint64_t> durable{0};
    std::atomic<std::uint64_t> received{0};
    std::atomic<std::uint64_t> stored{0};
};

struct ProducerStatus {
    std::string id;
    std::uint32_t pid = 0;
    std::string run;
    std::uint64_t ring_bytes = 0;
    std::uint64_t pending_bytes = 0;
    std::uint64_t points = 0;
    std::uint64_t dropped = 0;
};
struct PointCounts {
    std::uint64_t logged = 0;
    std::uint64_t durable = 0;
    std::uint64_t received = 0;
    std::uint64_t stored = 0;
    std::uint64_t dropped = 0;
};
struct RingSnapshot {
    std::vector<ProducerStatus> producers;
    PointCounts points;
};

class RingRole {
public:
    RingRole(const ring::Options& options, ring::AttachServer server, std::unique_ptr<intake::Intake> intake,
             SpscQueue<intake::Batch>& batches, SpscQueue<parcel::Gap>& losses, const Reached& reached, int wake_fd, std::function<void()> wake_disk,
             std::function<void()> ask_store);
    ~RingRole();

    // Rings that the service manager kept from an earlier life of this agent. Before run().
    void restore(std::vector<PassedRing> rings);
    void run();
    std::int64_t beat_ns() const { return beat_.last_ns(); }
    void stop() { stopping_.store(true); }
    RingSnapshot snapshot() const;

private:
    struct Ring;
    using Rings = std::map<Uuid, std::unique_ptr<Ring>>;
    struct Cut {
        std::vector<std::pair<Uuid, std::uint64_t>> marks;
        std::uint64_t points = 0;
    };

    bool poll(std::int64_t now);
    void serve_attach(std::int64_t now);
    void on_event(ring::Offered& offered, std::int64_t now);
    void on_event(const ring::ConnectionEnded& ended, std::int64_t now);
    bool read_rings();
    bool read_ring(Ring& ring, std::uint64_t& budget_bytes);
    void sync_series(Ring& ring);
    void declare_older(Ring& ring, std::uint64_t points_before);
    void take_drops(Ring& ring);
    void end_rings(std::int64_t now);
    bool cut(bool even_if_young, std::int64_t now);
    bool advance();
    void move_marks(std::deque<Cut>& cuts, std::uint64_t& done, std::uint64_t reached, int level);
    void drop_ended();
    void wait(std::int64_t now, bool busy);
    void drain();
    void publish();

    const ring::Options options_;
    ring::AttachServer server_;
    std::unique_ptr<intake::Intake> intake_;
    SpscQueue<intake::Batch>& batches_;
    SpscQueue<parcel::Gap>& losses_;  // what the disk role found lost
    const Reached& reached_;
    int wake_fd_;
    std::function<void()> wake_disk_;
    std::function<void()> ask_store_;

    Rings rings_;
    Bytes scratch_;
    std::uint64_t cut_groups_ = 0;
    std::deque<Cut> durable_cuts_, received_cuts_, stored_cuts_;
    std::uint64_t durable_done_ = 0, received_done_ = 0, stored_done_ = 0;
    std::int64_t last_record_ns_ = 0;
    std::int64_t began_ns_ = 0;
    bool absent_closed_ = false;
    bool flush_asked_ = false;
    std::atomic<bool> stopping_{false};
    Beat beat_;

    mutable std::mutex snapshot_mutex_;  // a few times a second
    RingSnapshot snapshot_;
    PointCounts counts_;
    std::int64_t published_ns_ = 0;
};

}  // namespace tally::app
