// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What both ends of a session share: outgoing messages, timers, the way it ends.
// Flow    Beast adapter -> on_message / on_tick -> take_output -> Beast adapter. No sockets, clocks or threads inside.
// Format  transport/PROTOCOL.md
// Threads One thread per session; `now` is monotonic nanoseconds.

#include <memory>
#include <string>
#include <algorithm>
#include <utility>
#include <vector>

#include "transport/wire/messages.hpp"

namespace tally::wire {

using Payload = std::shared_ptr<const Bytes>;

// One WebSocket message: head, then the payload if there is one (never copied).
struct Output {
    Bytes head;
    Payload payload;
    std::size_t bytes() const { return head.size() + (payload ? payload->size() : 0); }
};

enum class SessionState : std::uint8_t { hello, open, draining, closed };

struct SessionEnd {
    Reason reason = Reason::none;
    std::uint32_t retry_after_ms = 0;
    std::string why;
    bool by_peer = false;
};

inline constexpr std::int64_t hello_timeout_ns = 10'000'000'000;

// State, timers and output common to ClientSession and ServerSession.
class SessionBase {
public:
    SessionState state() const { return state_; }
    const SessionEnd& end() const { return end_; }
    std::vector<Output> take_output() { return std::exchange(output_, {}); }
    bool has_output() const { return !output_.empty(); }
    std::int64_t rtt_ns() const { return rtt_ns_; }
    // Says GOAWAY and closes once the output is written.
    void close(Reason reason, std::uint32_t retry_after_ms, std::string why);

protected:
    explicit SessionBase(std::int64_t now) : opened_ns_(now), heard_ns_(now), said_ns_(now) {}

    void say(const Message& message, std::int64_t now);
    void heard(std::int64_t now) { heard_ns_ = now; }
    void end_by_peer(const GoAway& m);
    // Pings when quiet, ends when the peer is silent for three periods or says no hello.
    void tick(std::int64_t now);
    // True when the message was one of those both sides treat alike.
    bool common(const Message& message, std::int64_t now);

    SessionState state_ = SessionState::hello;
    SessionEnd end_;
    std::vector<Output> output_;
    std::int64_t opened_ns_;
    std::int64_t heard_ns_;
    std::int64_t said_ns_;
    std::int64_t ping_ns_ = 15'000'000'000;
    std::int64_t ping_sent_ns_ = 0;
    std::int64_t rtt_ns_ = 0;
};

}  // namespace tally::wire
