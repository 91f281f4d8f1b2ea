// SPDX-License-Identifier: Apache-2.0
#include "transport/uplink/uplink.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/base/clock.hpp"
#include "agent/base/fd.hpp"
#include "agent/base/log.hpp"
#include "transport/uplink/connection.hpp"
#include "transport/uplink/pool.hpp"
#include "transport/wire/client_session.hpp"

namespace tally::uplink {

namespace {

namespace asio = boost::asio;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t backoff_first_ns = second / 5;
constexpr std::int64_t backoff_max_ns = 30 * second;
constexpr std::int64_t misconfigured_retry_ns = 60 * second;
constexpr std::int64_t write_timeout_ns = 30 * second;
constexpr std::int64_t ack_timeout_ns = 30 * second;  // parcels in flight and no progress: give them to others
constexpr std::size_t queued_parcels_max = 2;         // per session: what is behind is still free to move
constexpr std::size_t token_bytes_max = 4096;

Result<std::string> read_token(const std::string& path) {
    auto content = read_file(path, token_bytes_max);
    if (!content) return std::unexpected(content.error());
    struct stat st {};
    if (::stat(path.c_str(), &st) == 0 && (st.st_mode & 0007U) != 0)
        log_warn("uplink.token_readable", {{"file", path}, {"do", "chmod o-rwx"}});
    std::string token(as_text(*content));
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
    if (token.empty() || token.find_first_of("\r\n") != std::string::npos) return fail(Code::invalid, "token file");
    return token;
}

// A session number: its connection while there is one, its backoff while there is none.
struct Slot {
    std::uint16_t number = 0;
    std::shared_ptr<Connection> connection;
    std::unique_ptr<wire::ClientSession> session;
    std::uint64_t life = 0;  // distinguishes late callbacks of an earlier connection
    std::int64_t retry_at_ns = 0;
    std::int64_t backoff_ns = backoff_first_ns;
    std::int64_t progress_ns = 0;
    Uuid receiver;  // of the last WELCOME
};

class UplinkImpl final : public Uplink {
public:
    UplinkImpl(const Options& options, Endpoint endpoint, SpoolInfo info, Queues& queues)
        : options_(options), endpoint_(std::move(endpoint)), info_(std::move(info)), queues_(queues),
          live_(options.live_window_bytes), bulk_(options.window_bytes), timer_(io_), rng_(random_u64()) {
        for (const auto& kept : info_.kept) lanes_.insert({kept.start, kept.lane});
        slots_.resize(options.sessions);
        for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].number = static_cast<std::uint16_t>(i);
    }

    Status prepare_tls() {
        if (!endpoint_.tls) return {};
        tls_ = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
        boost::system::error_code ec;
        tls_->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, ec);
        if (options_.ca_file.empty()) {
            tls_->set_default_verify_paths(ec);
        } else {
            tls_->load_verify_file(options_.ca_file, ec);
        }
        if (ec) return fail(Code::invalid, "uplink ca_file cannot be loaded");
        tls_->set_verify_mode(asio::ssl::verify_peer, ec);
        return {};
    }

    void run() override {
        arm_timer();
        pump();
        io_.run();
    }
    void stop() override {
        asio::post(io_, [this] {
            stopping_ = true;
            for (Slot& slot : slots_) end_slot(slot, 0, 0, "stopping");
            timer_.cancel();
            io_.stop();  // timers inside a closing WebSocket would hold run() for a while
        });
    }
    void wake() override {
        if (!pump_posted_.exchange(true)) {
            asio::post(io_, [this] {
                pump_posted_.store(false);
                pump();
            });
        }
    }
    void pause(bool paused) override {
        asio::post(io_, [this, paused] {
            paused_ = paused;
            for (Slot& slot : slots_) {
                if (paused) end_slot(slot, 0, 0, "paused");
                if (!paused) slot.retry_at_ns = 0;
            }
            set_state(paused ? State::paused : State::connecting, "");
            pump();
        });
    }
    void flush_store() override {
        asio::post(io_, [this] {
            Slot& slot = slots_[0];
            if (!slot.session) return;
            slot.session->flush_store(monotonic_ns());
            drain_output(slot);
        });
    }
    Stats stats() const override {
        const std::lock_guard lock(stats_mutex_);
        return stats_;
    }

private:
    void arm_timer() {
        timer_.expires_after(std::chrono::milliseconds(50));
        timer_.async_wait([this](boost::system::error_code ec) {
            if (ec || stopping_) return;
            tick();
            arm_timer();
        });
    }

    void tick() {
        const std::int64_t now = monotonic_ns();
        for (Slot& slot : slots_) {
            if (!slot.connection) {
                if (!paused_ && now >= slot.retry_at_ns) dial(slot, now);
                continue;
            }
            if (!slot.session) continue;
            slot.session->on_tick(now);
            drain_output(slot);
            judge(slot, now);
        }
        pump();
        publish_stats(now);
    }

    // Ends sessions that are over, stuck in a write, or make no progress.
    void judge(Slot& slot, std::int64_t now) {
        const wire::ClientSession& s = *slot.session;
        const std::int64_t write_began = slot.connection->write_began_ns();
        if (s.state() == wire::SessionState::closed || (s.state() == wire::SessionState::draining && s.in_flight().empty())) {
            end_slot(slot, 0, s.end().retry_after_ms / 1000, std::string(reason_name(s.end().reason)) + ": " + s.end().why);
        } else if (write_began != 0 && now - write_began > write_timeout_ns) {
            end_slot(slot, 0, 0, "write timed out");
        } else if (!s.in_flight().empty() && now - slot.progress_ns > ack_timeout_ns) {
            end_slot(slot, 0, 0, "no acknowledgement for 30 s");
        }
    }

    void dial(Slot& slot, std::int64_t now) {
        const auto token = read_token(options_.token_file);
        if (!token) {
            set_state(State::denied, "token_file " + options_.token_file + ": " + token.error().text());
            slot.retry_at_ns = now + 5 * second;
            return;
        }
        const std::uint64_t life = ++slot.life;
        const auto alive = [this, &slot, life] { return slot.life == life && slot.connection != nullptr; };
        ConnectionEvents events;
        events.on_open = [this, &slot, alive] {
            if (alive()) greet(slot);
        };
        events.on_message = [this, &slot, alive](ByteView message) {
            if (alive()) hear(slot, message);
        };
        events.on_drained = [this, alive] {
            if (alive()) pump();
        };
        events.on_closed = [this, &slot, alive](unsigned status, std::uint32_t retry_after_s, const std::string& why) {
            if (alive()) end_slot(slot, status, retry_after_s, why);
        };
        slot.connection = Connection::dial(io_, tls_.get(), endpoint_, *token, std::move(events));
    }

    void greet(Slot& slot) {
        wire::Hello hello;
        hello.spool = info_.uuid;
        hello.start = info_.start;
        hello.session = slot.number;
        hello.sessions = static_cast<std::uint16_t>(slots_.size());
        hello.agent_version = info_.version;
        hello.host = info_.host;
        for (const auto& [start, lane] : lanes_) hello.lanes.push_back({start, lane, 0, 0});
        const std::int64_t now = monotonic_ns();
        slot.progress_ns = now;
        slot.session = std::make_unique<wire::ClientSession>(hello, now);
        drain_output(slot);
    }

    void hear(Slot& slot, ByteView message) {
        if (!slot.session) return;
        const std::int64_t now = monotonic_ns();
        slot.session->on_message(message, now);
        for (wire::ClientEvent& event : slot.session->take_events()) {
            slot.progress_ns = now;
            std::visit([&](auto& e) { on_event(slot, e); }, event);
        }
        drain_output(slot);
        pump();
    }

    void on_event(Slot& slot, const wire::Welcomed& e) {
        slot.backoff_ns = backoff_first_ns;
        set_state(State::up, "");
        log_info("uplink.session_up", {{"session", slot.number}, {"endpoint", options_.endpoint}});
        slot.receiver = e.welcome.receiver;
        for (const wire::LaneSets& sets : e.welcome.known) progress(sets, slot.receiver);
        Inbound in;
        in.kind = Inbound::Kind::welcomed;
        in.receiver = slot.receiver;
        in.keep_stored = e.welcome.ack_level != 0;
        report(std::move(in));
    }
    void on_event(Slot& slot, const wire::Progressed& e) { progress(e.sets, slot.receiver); }
    void on_event(Slot&, const wire::Nacked& e) {
        // The pause it asks for holds for the whole pool: the receiver has no room.
        not_before_ns_ = monotonic_ns() + std::int64_t{std::clamp(e.nack.retry_after_ms, 20U, 60'000U)} * 1'000'000;
        pool_of(e.nack.id.lane).give_back(e.nack.id);
    }
    void on_event(Slot&, const wire::RefusedEvent& e) {
        const wire::Refused& r = e.refused;
        log_warn("uplink.refused", {{"lane", lane_name(r.id.lane)}, {"seq", raw(r.id.seq)}, {"reason", reason_name(r.reason)}, {"why", r.why}});
        if (r.section != 0xFFFF) return;  // the rest of the parcel landed; the receiver kept the section's gap
        Inbound in;
        in.kind = Inbound::Kind::refused;
        in.id = r.id;
        in.why = std::string(reason_name(r.reason)) + ": " + r.why;
        if (auto parcel = pool_of(r.id.lane).remove(r.id)) in.payload = std::move(parcel->payload);
        report(std::move(in));
    }

    void progress(const wire::LaneSets& sets, const Uuid& receiver) {
        const Pool::Landed landed = pool_of(sets.lane).landed(sets.start, sets.lane, sets.received);
        acked_parcels_ += landed.parcels;
        acked_bytes_ += landed.bytes;
        for (const auto kind : {Inbound::Kind::received, Inbound::Kind::stored}) {
            Inbound in;
            in.kind = kind;
            in.receiver = receiver;
            in.start = sets.start;
            in.lane = sets.lane;
            in.seqs = kind == Inbound::Kind::received ? sets.received : sets.stored;
            if (!in.seqs.empty()) report(std::move(in));
        }
    }

    void end_slot(Slot& slot, unsigned status, std::uint32_t retry_after_s, const std::string& why) {
        if (!slot.connection) return;
        const std::int64_t now = monotonic_ns();
        if (slot.session)
            for (const auto& [id, bytes] : slot.session->in_flight()) pool_of(id.lane).give_back(id);
        slot.session.reset();
        std::exchange(slot.connection, nullptr)->close(why);
        ++slot.life;
        // Full jitter: all of a crowd that lost its receiver at once does not come back at once.
        slot.retry_at_ns = now + static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(slot.backoff_ns));
        slot.backoff_ns = std::min(slot.backoff_ns * 2, backoff_max_ns);
        State state = State::backoff;
        if (status == 401 || status == 403) state = State::denied;
        if (status == 404 || status == 426 || (status >= 300 && status < 400)) state = State::misconfigured;
        if (state != State::backoff) slot.retry_at_ns = now + misconfigured_retry_ns;
        if (retry_after_s > 0) slot.retry_at_ns = now + std::int64_t{std::min(retry_after_s, 600U)} * second;
        const bool any_up = std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.session != nullptr; });
        if (!any_up) set_state(paused_ ? State::paused : state, why);
        log_warn("uplink.session_down", {{"session", slot.number}, {"why", why}});
    }

    void pump() {
        flush_back();
        // The queue is left alone while the window is full: backpressure into the spool.
        while (live_.has_room()) {
            auto parcel = queues_.live.pop();
            if (!parcel) break;
            take_in(live_, std::move(*parcel));
        }
        while (bulk_.has_room()) {
            auto parcel = queues_.bulk.pop();
            if (!parcel) break;
            take_in(bulk_, std::move(*parcel));
        }
        if (stopping_ || paused_ || monotonic_ns() < not_before_ns_) return;
        feed(slots_[0], live_);
        // One parcel per session and round, so that they fill evenly.
        for (bool moved = true; moved && bulk_.waiting();) {
            moved = false;
            for (std::size_t i = 1; i < slots_.size() && bulk_.waiting(); ++i) moved |= feed_one(slots_[i], bulk_);
        }
    }

    void take_in(Pool& pool, Outbound parcel) {
        lanes_.insert({parcel.id.start, parcel.id.lane});
        pool.add(std::move(parcel));
    }

    void feed(Slot& slot, Pool& pool) {
        while (pool.waiting() && feed_one(slot, pool)) {
        }
    }

    bool feed_one(Slot& slot, Pool& pool) {
        const std::int64_t now = monotonic_ns();
        if (!slot.session || !slot.session->can_send(now) || slot.connection->queued() >= queued_parcels_max) return false;
        if (slot.session->in_flight().empty()) slot.progress_ns = now;
        Outbound parcel = pool.take();
        sent_bytes_ += parcel.payload->size();
        slot.session->send(parcel.id, std::move(parcel.payload), now);
        drain_output(slot);
        return true;
    }

    void drain_output(Slot& slot) {
        if (!slot.session || !slot.connection) return;
        for (wire::Output& out : slot.session->take_output()) slot.connection->write(std::move(out));
    }

    Pool& pool_of(Lane lane) { return lane == Lane::live ? live_ : bulk_; }

    void report(Inbound in) {
        back_overflow_.push_back(std::move(in));
        flush_back();
    }
    void flush_back() {
        bool pushed = false;
        while (!back_overflow_.empty() && queues_.back.push(std::move(back_overflow_.front()))) {
            back_overflow_.pop_front();
            pushed = true;
        }
        if (pushed && queues_.wake_disk) queues_.wake_disk();
    }

    void set_state(State state, const std::string& why) {
        const std::lock_guard lock(stats_mutex_);
        stats_.state = state;
        if (!why.empty()) stats_.last_error = why;
    }

    void publish_stats(std::int64_t now) {
        const std::lock_guard lock(stats_mutex_);
        stats_.sessions = 0;
        for (const Slot& s : slots_)
            if (s.session && s.session->state() == wire::SessionState::open) ++stats_.sessions;
        stats_.beat_ns = now;
        stats_.sent_bytes = sent_bytes_;
        stats_.acked_parcels = acked_parcels_;
        stats_.held_bytes = live_.held_bytes() + bulk_.held_bytes();
        if (slots_[0].session) stats_.rtt_ms = static_cast<double>(slots_[0].session->rtt_ns()) / 1e6;
        if (now - goodput_since_ns_ >= second) {
            stats_.goodput_bps = static_cast<double>(acked_bytes_ - goodput_bytes_) * 8e9 / static_cast<double>(now - goodput_since_ns_);
            goodput_since_ns_ = now;
            goodput_bytes_ = acked_bytes_;
        }
    }

    const Options options_;
    const Endpoint endpoint_;
    const SpoolInfo info_;
    Queues& queues_;

    // role: net
    asio::io_context io_{1};
    std::unique_ptr<asio::ssl::context> tls_;
    Pool live_;
    Pool bulk_;
    std::set<std::pair<StartId, Lane>> lanes_;
    std::vector<Slot> slots_;
    std::deque<Inbound> back_overflow_;
    asio::steady_timer timer_;
    std::mt19937_64 rng_;
    std::int64_t not_before_ns_ = 0;
    std::uint64_t sent_bytes_ = 0;
    std::uint64_t acked_parcels_ = 0;
    std::uint64_t acked_bytes_ = 0;
    std::uint64_t goodput_bytes_ = 0;
    std::int64_t goodput_since_ns_ = 0;
    bool paused_ = false;
    bool stopping_ = false;

    std::atomic<bool> pump_posted_{false};
    mutable std::mutex stats_mutex_;  // once per tick and per state change
    Stats stats_;
};

}  // namespace

const char* state_name(State state) noexcept {
    switch (state) {
        case State::connecting: return "connecting";
        case State::up: return "up";
        case State::paused: return "paused";
        case State::denied: return "denied";
        case State::misconfigured: return "misconfigured";
        case State::backoff: return "backoff";
    }
    return "unknown";
}

Result<std::unique_ptr<Uplink>> Uplink::open(const Options& options, SpoolInfo info, Queues& queues) {
    auto endpoint = parse_endpoint(options.endpoint);
    if (!endpoint) return std::unexpected(endpoint.error());
    if (!endpoint->tls && !endpoint->loopback() && !options.allow_plaintext)
        return fail(Code::denied, "[uplink] endpoint: ws:// to another host needs allow_plaintext = true; better use wss://");
    if (options.sessions < 2 || options.sessions > 64) return fail(Code::invalid, "[uplink] sessions: 2 to 64");
    auto made = std::make_unique<UplinkImpl>(options, std::move(*endpoint), std::move(info), queues);
    TALLY_TRY(made->prepare_tls());
    return std::unique_ptr<Uplink>(std::move(made));
}

}  // namespace tally::uplink
