// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    An agent inside the test process: attaches what is offered, keeps every record, commits at once or not at all.

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/client/tallyman.h"
#include "agent/ring/attach.hpp"
#include "agent/ring/consumer.hpp"

namespace tally::client::test {

struct Kept {
    ring::RecordHeader header;
    Bytes body;
    ring::RingKind kind;
    std::uint64_t points;
};

class Agent {
public:
    explicit Agent(const std::string& path, ring::Options options = {}, bool commits = true)
        : server_(*ring::AttachServer::open(path, options)), commits_(commits), thread_([this] { run(); }) {}
    ~Agent() { stop(); }

    void stop() {
        stopping_ = true;
        if (thread_.joinable()) thread_.join();
    }
    std::vector<Kept> records() {
        const std::scoped_lock lock(mutex_);
        return records_;
    }
    std::vector<ring::DropEntry> drops() {
        const std::scoped_lock lock(mutex_);
        std::vector<ring::DropEntry> out;
        for (Served& s : rings_)
            for (const auto& d : s.consumer.drops()) out.push_back(d);
        return out;
    }
    int byes() const { return byes_; }
    int faults() const { return faults_; }
    int attached() {
        const std::scoped_lock lock(mutex_);
        return static_cast<int>(rings_.size());
    }

private:
    struct Served {
        ring::Offered offered;
        ring::Consumer consumer;
        bool faulted = false;
    };
    void run() {
        Bytes scratch;
        while (!stopping_) {
            {
                const std::scoped_lock lock(mutex_);
                for (auto& event : server_.poll(monotonic_ns())) take(event);
                for (Served& s : rings_) drain(s, scratch);
            }
            ::usleep(500);
        }
    }
    void take(ring::AttachEvent& event) {
        if (auto* ended = std::get_if<ring::ConnectionEnded>(&event)) {
            byes_ += ended->bye ? 1 : 0;
            return;
        }
        auto& offered = std::get<ring::Offered>(event);
        auto consumer = ring::Consumer::open_at_tail(offered.ring);
        if (!consumer) {
            ++faults_;
            return server_.refuse(offered.connection, offered.cookie, ring::Refusal::identity, consumer.error().text());
        }
        server_.accept(offered.connection, offered.cookie);
        rings_.push_back({std::move(offered), std::move(*consumer)});
    }
    void drain(Served& s, Bytes& scratch) {
        std::uint64_t end = 0;
        for (;;) {
            const auto record = s.consumer.next(scratch);
            if (!record && !s.faulted) s.faulted = true, ++faults_;
            if (!record || !record->has_value()) break;
            const auto& r = **record;
            records_.push_back({r.header, Bytes(r.body.begin(), r.body.end()), s.offered.ring.kind(), r.points});
            end = r.end;
        }
        if (end == 0 || !commits_) return;
        s.consumer.set_tail(end);
        s.consumer.wake_waiters();
    }

    ring::AttachServer server_;
    std::mutex mutex_;
    std::list<Served> rings_;
    std::vector<Kept> records_;
    std::atomic<int> byes_{0};
    std::atomic<int> faults_{0};
    const bool commits_;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

struct Dir {
    Dir() {
        char name[] = "/tmp/unit-client-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Dir() {
        ::unlink(socket().c_str());
        ::rmdir(path.c_str());
    }
    std::string socket() const { return path + "/s"; }
    std::string path;
};

inline tally_run* open_run(const std::string& socket, int on_full = TALLY_FULL_BLOCK) {
    tally_run_options o = TALLY_RUN_OPTIONS_INIT;
    o.socket = socket.c_str();
    o.run_id = "unit";
    o.on_full = on_full;
    o.block_timeout_ns = 50'000'000;
    tally_run* run = nullptr;
    REQUIRE_MESSAGE(tally_run_open(&o, &run) == 0, tally_last_error(nullptr));
    return run;
}

}  // namespace tally::client::test
