// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/server_session.hpp"

namespace tally::wire {

void ServerSession::on_message(ByteView message, std::int64_t now) {
    if (state_ == SessionState::closed) return;
    heard(now);
    const auto decoded = decode(message);
    if (!decoded) return close(Reason::protocol, 0, decoded.error().text());
    if (common(*decoded, now)) return;
    if (const auto* hello = std::get_if<Hello>(&*decoded)) return on_hello(*hello);
    if (state_ == SessionState::hello) return close(Reason::protocol, 0, "a message before HELLO was answered");
    if (const auto* parcel = std::get_if<Parcel>(&*decoded)) return on_parcel(*parcel, message.size());
    if (std::holds_alternative<Flush>(*decoded)) {
        events_.push_back(FlushAsked{});
        return;
    }
    close(Reason::protocol, 0, "a message only receivers send");
}

void ServerSession::on_hello(const Hello& m) {
    if (greeted_) return close(Reason::protocol, 0, "a second HELLO");
    greeted_ = true;
    if (m.version_min > protocol_version || m.version_max < protocol_version)
        return close(Reason::version, 60'000, "this receiver speaks protocol version 1");
    if (m.spool.is_nil() || raw(m.start) == 0) return close(Reason::protocol, 0, "HELLO without a spool or start");
    if (m.sessions == 0 || m.sessions > 64 || m.session >= m.sessions)
        return close(Reason::protocol, 0, "HELLO with session numbers out of range");
    hello_ = m;
    events_.push_back(Greeted{m});
}

void ServerSession::on_parcel(const Parcel& m, std::size_t message_bytes) {
    // One message beyond the credit is the agreed slack; more is a peer that does not count.
    if (received_bytes_ > credit_bytes_) return close(Reason::protocol, 0, "more than the granted credit");
    received_bytes_ += message_bytes;
    events_.push_back(Arrived{m.id, m.bytes});
}

void ServerSession::welcome(const Welcome& welcome, std::int64_t now) {
    TALLY_ASSERT(greeted_ && state_ == SessionState::hello);
    state_ = SessionState::open;
    credit_bytes_ = welcome.credit_bytes;
    ping_ns_ = std::int64_t{welcome.ping_ms} * 1'000'000;
    say(welcome, now);
}

void ServerSession::grant(std::uint64_t room_bytes, std::int64_t now) {
    const std::uint64_t target = received_bytes_ + room_bytes;
    if (state_ != SessionState::open || target < credit_bytes_ + room_bytes / 4) return;
    credit_bytes_ = target;
    say(Credit{credit_bytes_}, now);
}

}  // namespace tally::wire
