// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/session.hpp"

namespace tally::wire {

void SessionBase::say(const Message& message, std::int64_t now) {
    output_.push_back({encode(message), nullptr});
    said_ns_ = now;
}

void SessionBase::close(Reason reason, std::uint32_t retry_after_ms, std::string why) {
    if (state_ == SessionState::closed) return;
    output_.push_back({encode(GoAway{reason, retry_after_ms, why}), nullptr});
    state_ = SessionState::closed;
    end_ = {reason, retry_after_ms, std::move(why), false};
}

void SessionBase::end_by_peer(const GoAway& m) {
    end_ = {m.reason, m.retry_after_ms, m.why, true};
    state_ = state_ == SessionState::open ? SessionState::draining : SessionState::closed;
}

void SessionBase::tick(std::int64_t now) {
    if (state_ == SessionState::closed) return;
    if (state_ == SessionState::hello && now - opened_ns_ > hello_timeout_ns)
        return close(Reason::protocol, 0, "no hello within 10 s");
    if (now - heard_ns_ > 3 * ping_ns_) return close(Reason::protocol, 0, "peer is silent");
    if (state_ != SessionState::hello && now - std::min(said_ns_, heard_ns_) > ping_ns_ && now - ping_sent_ns_ > ping_ns_) {
        ping_sent_ns_ = now;
        say(Ping{static_cast<std::uint64_t>(now)}, now);
    }
}

bool SessionBase::common(const Message& message, std::int64_t now) {
    if (const auto* ping = std::get_if<Ping>(&message)) {
        say(Pong{ping->token}, now);
        return true;
    }
    if (const auto* pong = std::get_if<Pong>(&message)) {
        if (ping_sent_ns_ != 0 && pong->token == static_cast<std::uint64_t>(ping_sent_ns_)) rtt_ns_ = now - ping_sent_ns_;
        return true;
    }
    if (const auto* away = std::get_if<GoAway>(&message)) {
        end_by_peer(*away);
        return true;
    }
    return std::holds_alternative<Skipped>(message);
}

}  // namespace tally::wire
