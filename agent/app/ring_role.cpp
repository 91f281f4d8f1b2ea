// SPDX-License-Identifier: Apache-2.0
#include "agent/app/ring_role.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"

namespace tally::app {

namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t death_grace_ns = 10 * second;
constexpr std::int64_t absent_after_ns = 30 * second;
constexpr std::int64_t trickle_after_ns = 100 * ms;
constexpr std::uint64_t read_bytes_per_poll = 32ULL << 20;

bool process_gone(std::int32_t pid) { return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH; }

intake::RingInfo describe(const ring::Mapping& mapping, const ring::Consumer& consumer, std::uint32_t pid) {
    const ring::IdentityPart& id = mapping.identity();
    const ring::ProducerInfo& p = *consumer.registry().producer();
    intake::RingInfo info;
    info.ring = mapping.ring_uuid();
    info.kind = mapping.kind();
    info.pid = pid;
    info.opened_ns = id.opened_ns;
    info.tail = consumer.position();
    info.producer = mapping.producer_uuid();
    info.run = p.run;
    info.project = p.project;
    info.name = p.name;
    info.role = p.role;
    info.host = p.host;
    info.labels = p.labels;
    info.continues = p.continues ? p.continues->text() : "";
    info.run_created_ns = p.run_created_ns;
    info.fork_step = p.fork_step;
    info.attempt = p.attempt;
    info.producers_declared = p.producers;
    if (const auto& block = consumer.registry().block()) {
        info.block.block = block->block;
        info.block.env_first = block->env_first;
        info.block.env_count = block->env_count;
        for (const ring::MetricInfo& m : block->metrics) info.block.metrics.push_back({m.dtype, m.name});
    }
    for (const ring::SeriesInfo& s : consumer.registry().series()) info.series.push_back({s.dtype, s.name});
    return info;
}

}  // namespace

struct RingRole::Ring {
    ring::Mapping mapping;
    ring::Charge charge;
    Fd wake;
    ring::Consumer consumer;
    ring::ConnectionId connection{};
    std::int32_t pid = 0;
    intake::RingHandle handle{};
    std::string run;
    std::uint64_t dropped_seen = 0;
    std::int64_t gone_ns = 0;    // its connection ended without bye then; 0: alive
    bool bye = false;
    bool corrupt = false;
    bool ended = false;          // intake was told
    std::uint64_t ended_in = 0;  // group after which it may go
};

RingRole::RingRole(const ring::Options& options, ring::AttachServer server, std::unique_ptr<intake::Intake> intake,
                   SpscQueue<intake::Batch>& batches, SpscQueue<parcel::Gap>& losses, const Reached& reached, int wake_fd, std::function<void()> wake_disk,
                   std::function<void()> ask_store)
    : options_(options), server_(std::move(server)), intake_(std::move(intake)), batches_(batches), losses_(losses), reached_(reached),
      wake_fd_(wake_fd), wake_disk_(std::move(wake_disk)), ask_store_(std::move(ask_store)) {}

RingRole::~RingRole() = default;

void RingRole::restore(std::vector<PassedRing> rings) {
    const std::int64_t now = monotonic_ns();
    for (PassedRing& passed : rings) {
        auto offered = server_.restore(std::move(passed.ring), std::move(passed.wake));
        if (!offered) {
            log_warn("ring.not_restored", {{"why", offered.error().text}});
            continue;
        }
        const Uuid uuid = offered->ring.ring_uuid();
        on_event(*offered, now);
        // Until its trainer dials again it counts as one that went away just now.
        if (const auto it = rings_.find(uuid); it != rings_.end()) it->second->gone_ns = now;
        else drop_ring(uuid);
    }
}

void RingRole::run() {
    began_ns_ = last_record_ns_ = monotonic_ns();
    while (!stopping_.load()) {
        const std::int64_t now = monotonic_ns();
        beat_(now);
        const bool busy = poll(now);
        if (!busy) wait(now, busy);
    }
    drain();
}

bool RingRole::poll(std::int64_t now) {
    serve_attach(now);
    bool busy = read_rings();
    if (busy) last_record_ns_ = now;
    end_rings(now);
    while (auto gap = losses_.pop()) intake_->loss(std::move(*gap));
    intake_->heartbeat(now, wall_ns());
    if (!absent_closed_ && now - began_ns_ > absent_after_ns) {
        absent_closed_ = true;
        intake_->close_absent(wall_ns());
    }
    busy |= cut(flush_asked_, now);
    busy |= advance();
    drop_ended();
    if (now - published_ns_ > 200 * ms) {
        published_ns_ = now;
        publish();
    }
    return busy;
}

void RingRole::serve_attach(std::int64_t now) {
    for (ring::AttachEvent& event : server_.poll(now)) std::visit([&](auto& e) { on_event(e, now); }, event);
}

void RingRole::on_event(ring::Offered& offered, std::int64_t) {
    const Uuid uuid = offered.ring.ring_uuid();
    if (const auto known = rings_.find(uuid); known != rings_.end()) {
        // The same client dialled again: the ring is mapped and read already.
        Ring& ring = *known->second;
        if (ring.mapping.key() != offered.ring.key())
            return server_.refuse(offered.connection, offered.cookie, ring::Refusal::identity, "another ring has this UUID");
        ring.connection = offered.connection;
        ring.gone_ns = 0;
        ring.wake = std::move(offered.wake);
        return server_.accept(offered.connection, offered.cookie);
    }
    auto consumer = ring::Consumer::open_at_tail(offered.ring);
    if (!consumer || !consumer->registry().producer())
        return server_.refuse(offered.connection, offered.cookie, ring::Refusal::identity, "the ring's registry makes no sense");
    const auto pid = offered.pid > 0 ? static_cast<std::uint32_t>(offered.pid) : offered.ring.identity().pid;
    const intake::RingInfo info = describe(offered.ring, *consumer, pid);
    const auto attached = intake_->attach(info, wall_ns());
    if (!attached) {
        log_warn("ring.refused", {{"run", info.run}, {"error", attached.error()}});
        return server_.refuse(offered.connection, offered.cookie, ring::Refusal::identity, attached.error().text());
    }
    if (attached->resume) {
        const intake::RingCursor& c = *attached->resume;
        consumer = ring::Consumer::open(offered.ring, c.position, c.record_number, c.points_total);
        if (!consumer) {
            intake_->corrupt(attached->handle, 0, wall_ns());
            return server_.refuse(offered.connection, offered.cookie, ring::Refusal::identity, consumer.error().text());
        }
    }
    auto ring = std::make_unique<Ring>(Ring{std::move(offered.ring), std::move(offered.charge), std::move(offered.wake),
                                            std::move(*consumer), offered.connection, offered.pid, attached->handle, info.run});
    ring->consumer.set_attached(true);
    keep_ring(uuid, ring->mapping.fd(), ring->wake.get());
    rings_.emplace(uuid, std::move(ring));
    server_.accept(offered.connection, offered.cookie);
    last_record_ns_ = monotonic_ns();
    log_info("ring.attached", {{"run", info.run}, {"producer", info.producer.text()}, {"pid", pid}});
}

void RingRole::on_event(const ring::ConnectionEnded& ended, std::int64_t now) {
    for (auto& [uuid, ring] : rings_) {
        if (ring->connection != ended.connection) continue;
        ring->gone_ns = now;
        ring->bye = ended.bye;
    }
}

bool RingRole::read_rings() {
    bool moved = false;
    std::uint64_t budget = read_bytes_per_poll;
    for (auto& [uuid, ring] : rings_) {
        if (batches_.size() >= batches_.capacity()) break;
        moved |= read_ring(*ring, budget);
        flush_asked_ |= ring->consumer.take_flush_asked();
        if (ring->consumer.take_store_asked()) {
            flush_asked_ = true;
            ask_store_();
        }
    }
    return moved;
}

bool RingRole::read_ring(Ring& ring, std::uint64_t& budget) {
    if (ring.corrupt || ring.ended) return false;
    bool moved = false;
    // A ring that fills batches alone yields after its share, so that the others are read in the same poll.
    for (std::uint64_t read = 0; read < budget && !intake_->batch_ready(0);) {
        auto view = ring.consumer.next(scratch_);
        if (view && !*view) break;
        Status taken;
        if (view) {
            sync_series(ring);
            declare_older(ring, (*view)->header.points_total - (*view)->points);
            if (!(*view)->body.empty()) taken = intake_->record(ring.handle, (*view)->header, (*view)->body, (*view)->end);
            read += (*view)->header.bytes;
        }
        if (!view || !taken) {
            const Error error = view ? taken.error() : view.error();
            ring.consumer.set_fault(error);
            ring.corrupt = true;
            intake_->corrupt(ring.handle, ring.consumer.lost_points().value_or(0), wall_ns());
            log_error("ring.corrupt", {{"run", ring.run}, {"pid", ring.pid}, {"error", error}});
            return true;
        }
        moved = true;
    }
    if (ring.consumer.dropped_points() != ring.dropped_seen) take_drops(ring);
    return moved;
}

// What was read from the ring after the spool's copy was made, and is in no spool of this agent: counted by the ring's own totals.
void RingRole::declare_older(Ring& ring, std::uint64_t points_before) {
    const auto known = ring.consumer.take_jump();
    if (!known) return;
    parcel::Gap gap;
    gap.time_ns = wall_ns();
    gap.step_first = INT64_MIN;
    gap.step_last = INT64_MAX;
    gap.points = points_before > *known ? points_before - *known : 0;
    gap.reason = "spool_older";
    log_error("ring.spool_older", {{"run", ring.run}, {"points", gap.points}});
    intake_->gap(ring.handle, std::move(gap));
}

void RingRole::sync_series(Ring& ring) {
    const auto& series = ring.consumer.registry().series();
    for (std::size_t i = intake_->series_count(ring.handle); i < series.size(); ++i)
        intake_->add_series(ring.handle, {series[i].dtype, series[i].name});
}

void RingRole::take_drops(Ring& ring) {
    ring.dropped_seen = ring.consumer.dropped_points();
    std::vector<intake::Drop> slots;
    for (const ring::DropEntry& d : ring.consumer.drops()) slots.push_back({d.block, d.reason, d.step_first, d.step_last, d.points});
    intake_->drops(ring.handle, slots, wall_ns());
}

void RingRole::end_rings(std::int64_t now) {
    for (auto& [uuid, ring] : rings_) {
        if (ring->ended) continue;
        const bool empty = ring->corrupt || ring->consumer.pending() == 0;
        if (!empty) continue;
        parcel::ProducerEnd end = parcel::ProducerEnd::none;
        if (!ring->corrupt && ring->consumer.drained()) {
            end = parcel::ProducerEnd::finished;
        } else if (ring->gone_ns != 0 && (ring->bye || process_gone(ring->pid) || now - ring->gone_ns > death_grace_ns)) {
            end = parcel::ProducerEnd::died;
        }
        if (end == parcel::ProducerEnd::none) continue;
        take_drops(*ring);
        declare_older(*ring, ring->consumer.published_points());
        intake_->end(ring->handle, end, wall_ns());
        ring->ended = true;
        ring->ended_in = cut_groups_ + 1;
        flush_asked_ = true;
    }
}

bool RingRole::cut(bool even_if_young, std::int64_t now) {
    if (batches_.size() >= batches_.capacity()) return false;
    if (!intake_->batch_ready(now) && !(even_if_young && intake_->pending())) {
        if (even_if_young) flush_asked_ = false;
        return false;
    }
    auto batch = intake_->cut(wall_ns());
    flush_asked_ = false;
    if (!batch) return false;
    ++cut_groups_;
    Cut cut;
    cut.points = batch->points;
    for (const intake::RingMark& mark : batch->marks)
        for (const auto& [uuid, ring] : rings_)
            if (ring->handle == mark.ring) cut.marks.push_back({uuid, mark.position});
    counts_.logged += batch->points;
    durable_cuts_.push_back(std::move(cut));
    TALLY_ASSERT(batches_.push(std::move(*batch)));
    wake_disk_();
    return true;
}

bool RingRole::advance() {
    const std::uint64_t durable = reached_.durable.load(std::memory_order_acquire);
    const std::uint64_t received = reached_.received.load(std::memory_order_acquire);
    const std::uint64_t stored = reached_.stored.load(std::memory_order_acquire);
    const bool moved = durable > durable_done_ || received > received_done_ || stored > stored_done_;
    move_marks(durable_cuts_, durable_done_, durable, 1);
    move_marks(received_cuts_, received_done_, std::min(received, durable_done_), 2);
    move_marks(stored_cuts_, stored_done_, std::min(stored, received_done_), 3);
    if (moved)
        for (auto& [uuid, ring] : rings_) ring->consumer.wake_waiters();
    return moved;
}

// Moves the ring words of one level, and passes the cut on to the queue of the next level.
void RingRole::move_marks(std::deque<Cut>& cuts, std::uint64_t& done, std::uint64_t reached, int level) {
    while (done < reached && !cuts.empty()) {
        Cut cut = std::move(cuts.front());
        cuts.pop_front();
        ++done;
        for (const auto& [uuid, position] : cut.marks) {
            const auto it = rings_.find(uuid);
            if (it == rings_.end()) continue;
            if (level == 1) it->second->consumer.set_tail(position);
            if (level == 2) it->second->consumer.set_received(position);
            if (level == 3) it->second->consumer.set_stored(position);
        }
        if (level == 1) {
            counts_.durable += cut.points;
            received_cuts_.push_back(std::move(cut));
        } else if (level == 2) {
            counts_.received += cut.points;
            stored_cuts_.push_back(std::move(cut));
        } else {
            counts_.stored += cut.points;
        }
    }
}

void RingRole::drop_ended() {
    std::erase_if(rings_, [this](auto& entry) {
        Ring& ring = *entry.second;
        if (!ring.ended || durable_done_ < ring.ended_in) return false;
        // A finished trainer that still lives may be waiting in flush(); its connection tells.
        if (ring.gone_ns == 0 && stored_done_ < ring.ended_in) return false;
        counts_.dropped += ring.consumer.dropped_points();
        ring.consumer.set_attached(false);
        drop_ring(entry.first);
        return true;
    });
}

void RingRole::wait(std::int64_t now, bool) {
    const std::int64_t quiet = now - last_record_ns_;
    std::int64_t timeout = quiet < trickle_after_ns ? options_.poll_busy_ns : options_.poll_idle_ns;
    std::vector<pollfd> fds{{server_.wait_fd(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    const bool sleep = quiet > options_.sleep_after_ns && !intake_->pending();
    if (sleep) {
        for (auto& [uuid, ring] : rings_) {
            ring->consumer.announce_sleep(true);
            fds.push_back({ring->wake.get(), POLLIN, 0});
        }
        timeout = second;
        for (auto& [uuid, ring] : rings_)
            if (ring->consumer.pending() > 0 && !ring->corrupt && !ring->ended) timeout = 0;
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(1, timeout / ms)));
    for (std::size_t i = 1; i < fds.size(); ++i) {
        if ((fds[i].revents & POLLIN) == 0) continue;
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = ::read(fds[i].fd, &count, sizeof count);
        if (i >= 2) last_record_ns_ = monotonic_ns();
    }
    if (sleep)
        for (auto& [uuid, ring] : rings_) ring->consumer.announce_sleep(false);
}

// SIGTERM: what is published now still goes to disk, within a bound; the rest stays in the rings.
void RingRole::drain() {
    server_.set_draining();
    const std::int64_t until = monotonic_ns() + 5 * second;
    flush_asked_ = true;
    while (monotonic_ns() < until) {
        const std::int64_t now = monotonic_ns();
        const bool read = read_rings();
        end_rings(now);
        const bool made = cut(true, now);
        advance();
        if (!read && !made && !intake_->pending() && durable_done_ == cut_groups_) break;
        if (!read && !made) ::usleep(1000);
        flush_asked_ = true;
    }
    for (auto& [uuid, ring] : rings_) {
        ring->consumer.wake_waiters();
        ring->consumer.set_attached(false);
    }
    publish();
}

void RingRole::publish() {
    RingSnapshot s;
    std::uint64_t dropped = counts_.dropped;
    for (const auto& [uuid, ring] : rings_) {
        dropped += ring->consumer.dropped_points();
        s.producers.push_back({ring->mapping.producer_uuid().text(), static_cast<std::uint32_t>(std::max(ring->pid, 0)), ring->run,
                               ring->mapping.bytes(), ring->consumer.pending(), ring->consumer.points(), ring->consumer.dropped_points()});
    }
    s.points = counts_;
    s.points.dropped = dropped;
    const std::lock_guard lock(snapshot_mutex_);
    snapshot_ = std::move(s);
}

RingSnapshot RingRole::snapshot() const {
    const std::lock_guard lock(snapshot_mutex_);
    return snapshot_;
}

}  // namespace tally::app
