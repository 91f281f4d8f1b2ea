// SPDX-License-Identifier: Apache-2.0
//
// What  `tallyman receiver`: wires the net, disk and sink roles of the far end.

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <thread>

#include "agent/app/agent.hpp"
#include "agent/app/reload.hpp"
#include "agent/app/runtime.hpp"
#include "agent/app/service.hpp"
#include "agent/app/version.hpp"
#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"
#include "config/files.hpp"
#include "transport/receiver/receiver.hpp"
#include "transport/sink/store.hpp"

namespace tally::app {

namespace {

constexpr int lander_wait_ms = 5;
constexpr int sink_wait_ms = 50;

// One thread that runs users' queries, so that neither net nor sink waits for them.
class QueryRole {
public:
    explicit QueryRole(sink::Store& store) : store_(store), thread_([this] { run(); }) {}
    ~QueryRole() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        ready_.notify_one();
        thread_.join();
    }
    void ask(receiver::QueryRequest request, receiver::QueryDone done) {
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.size() < waiting_max) {
                waiting_.emplace_back(std::move(request), std::move(done));
                ready_.notify_one();
                return;
            }
        }
        done(fail(Code::busy, "query"), "too many queries are waiting; try again");
    }

private:
    static constexpr std::size_t waiting_max = 64;
    using Job = std::pair<receiver::QueryRequest, receiver::QueryDone>;

    void run() {
        for (;;) {
            Job job;
            {
                std::unique_lock lock(mutex_);
                ready_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
                if (stopping_) return;
                job = std::move(waiting_.front());
                waiting_.pop_front();
            }
            sink::Answer answer = store_.query(job.first.sql, job.first.format, job.first.params);
            if (answer.ok()) {
                job.second(std::move(answer.rows), "");
            } else {
                job.second(fail(Code::refused, "query"), answer.error);
            }
        }
    }

    sink::Store& store_;
    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<Job> waiting_;
    bool stopping_ = false;
    std::thread thread_;
};

class ReceiverApp {
public:
    ReceiverApp(config::ReceiverConfig config, std::string config_file) : config_(std::move(config)), config_file_(std::move(config_file)) {}

    int open() {
        bool with_sink = config_.sink.kind == sink::Kind::chdb;
        if (with_sink && sink::find_chdb(config_.sink.library).empty()) {
            std::fprintf(stderr,
                         "tallyman receiver: SKIPPED embedded ClickHouse: libchdb.so not found ($TALLYMAN_CHDB, system library path, "
                         "build/deps). The landing keeps everything; prove with: tallyman reconcile RUN --at received\n");
            with_sink = false;
        }
        queues_.wake_net = [this] {
            if (receiver_) receiver_->wake();
        };
        queues_.wake_sink = [this] { wake_sink_(); };
        receiver::LanderOptions options;
        options.landing = config_.landing;
        options.has_sink = with_sink;
        auto lander = receiver::Lander::open(options, queues_);
        if (!lander) return report("landing " + config_.landing.dir, lander.error());
        lander_ = std::move(*lander);
        if (with_sink) {
            auto store = sink::Store::open(config_.sink, lander_->landing().uuid());
            if (!store) return report("store " + config_.sink.dir, store.error());
            store_ = std::move(*store);
            queries_ = std::make_unique<QueryRole>(*store_);
        }
        receiver::Hooks hooks;
        hooks.wake_lander = [this] { wake_lander_(); };
        hooks.metrics = [this] { return metrics(); };
        if (store_) {
            hooks.query = [this](receiver::QueryRequest q, receiver::QueryDone d) { queries_->ask(std::move(q), std::move(d)); };
            hooks.flush_asked = [this] {
                store_->ask_early_cut();
                wake_sink_();
            };
        }
        auto receiver = receiver::Receiver::open(config_.receiver, config_.landing.dir, lander_->landing().uuid(), queues_, std::move(hooks));
        if (!receiver) return report("receiver", receiver.error());
        receiver_ = std::move(*receiver);
        return 0;
    }

    int run() {
        const Fd signals = block_signals();
        std::thread net([this] { receiver_->run(); });
        std::thread disk([this] { run_lander(); });
        std::thread sink([this] { run_sink(); });
        log_info("receiver.ready", {{"listen", config_.receiver.listen}, {"port", receiver_->port()}, {"landing", config_.landing.dir},
                                    {"store", store_ ? config_.sink.dir : std::string("none")}});
        notify_ready("listening on " + config_.receiver.listen);
        serve(signals.get());
        notify_stopping();
        receiver_->stop();
        net.join();
        sink_stopping_.store(true);
        wake_sink_();
        sink.join();
        lander_stopping_.store(true);
        wake_lander_();
        disk.join();
        queries_.reset();
        store_.reset();
        lander_.reset();
        log_info("receiver.stopped", {});
        return failed_.load() ? 4 : 0;
    }

private:
    static int report(const std::string& what, const Error& error) {
        std::fprintf(stderr, "tallyman receiver: %s: %s\n", what.c_str(), error.text().c_str());
        if (error.code == Code::busy) return 3;
        return error.code == Code::invalid || error.code == Code::denied ? 2 : 4;
    }

    // role: net. What reconcile waits for: stored reaching what landed was.
    std::string metrics() const {
        const receiver::LandedCounts& counts = lander_->counts();
        const std::uint64_t stored = counts.stored.load();  // before landed: never more than it
        std::string out = "# TYPE tallyman_receiver_landed_parcels_total counter\ntallyman_receiver_landed_parcels_total " +
                          std::to_string(counts.landed.load()) + "\n";
        if (store_) out += "# TYPE tallyman_receiver_stored_parcels_total counter\ntallyman_receiver_stored_parcels_total " + std::to_string(stored) + "\n";
        return out;
    }

    void serve(int signal_fd) {
        Watchdog watchdog;
        while (!failed_.load()) {
            pollfd fd{signal_fd, POLLIN, 0};
            ::poll(&fd, 1, 500);
            watchdog.feed(monotonic_ns(), {lander_beat_.last_ns(), receiver_->beat_ns()});
            const int signal = take_signal(signal_fd);
            if (signal == SIGTERM || signal == SIGINT) return;
            if (signal == SIGHUP) reload();
        }
    }

    // Tokens and certificates are files of their own: they are read anew also when no key changed.
    void reload() {
        if (!reload_config(config_file_, config_, config::load_receiver, config::receiver_schema)) return;
        if (auto ok = receiver_->reload(config_.receiver); !ok) log_error("receiver.reload", {{"error", ok.error()}, {"what", "the old tokens and certificates stay in force"}});
    }

    void run_lander() {
        while (!lander_stopping_.load()) {
            const std::int64_t now = monotonic_ns();
            lander_beat_(now);
            const auto moved = lander_->poll(now);
            if (!moved) {
                log_error("receiver.landing_failed", {{"error", moved.error()}});
                failed_.store(true);
                return;
            }
            if (*moved) continue;
            pollfd fds[2] = {{wake_lander_.fd(), POLLIN, 0}, {lander_->landing().completion_fd(), POLLIN, 0}};
            ::poll(fds, fds[1].fd >= 0 ? 2 : 1, lander_->landing().groups_in_flight() > 0 && fds[1].fd < 0 ? 1 : lander_wait_ms);
            drain_wake(wake_lander_.fd());
        }
        if (auto done = lander_->drain(); !done) log_error("receiver.drain", {{"error", done.error()}});
    }

    void run_sink() {
        if (!store_) return;
        while (!sink_stopping_.load()) {
            bool moved = false;
            while (store_->wants_more()) {
                auto landed = queues_.landed.pop();
                if (!landed) break;
                store_->add(landed->start, landed->seq, std::move(landed->payload), monotonic_ns());
                moved = true;
            }
            const auto stored = store_->poll(monotonic_ns());
            if (!stored) {
                log_error("receiver.store_failed", {{"error", stored.error()}});
                failed_.store(true);
                return;
            }
            for (const sink::StoredRange& range : *stored) {
                receiver::StoredNotice notice{range.start, range.seqs};
                while (!queues_.stored.push(std::move(notice))) ::usleep(1000);
                wake_lander_();
                moved = true;
            }
            if (moved) continue;
            pollfd fd{wake_sink_.fd(), POLLIN, 0};
            ::poll(&fd, 1, sink_wait_ms);
            drain_wake(wake_sink_.fd());
        }
    }

    static void drain_wake(int fd) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = ::read(fd, &count, sizeof count);
    }

    config::ReceiverConfig config_;
    const std::string config_file_;
    Beat lander_beat_;
    Wake wake_lander_;
    Wake wake_sink_;
    receiver::LanderQueues queues_;
    std::unique_ptr<receiver::Lander> lander_;
    std::unique_ptr<sink::Store> store_;
    std::unique_ptr<QueryRole> queries_;
    std::unique_ptr<receiver::Receiver> receiver_;
    std::atomic<bool> lander_stopping_{false};
    std::atomic<bool> sink_stopping_{false};
    std::atomic<bool> failed_{false};
};

}  // namespace

int run_receiver(const std::string& config_file) {
    config::ReceiverConfig config;
    if (print_problems(config::load_receiver(config_file, config))) return 2;
    log_setup(config.log.level, ::getenv("JOURNAL_STREAM") == nullptr);
    ReceiverApp app(std::move(config), config_file);
    if (const int code = app.open(); code != 0) return code;
    return app.run();
}

}  // namespace tally::app
