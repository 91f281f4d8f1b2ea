// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/client_session.hpp"

#include <algorithm>

namespace tally::wire {

ClientSession::ClientSession(const Hello& hello, std::int64_t now) : SessionBase(now) { say(hello, now); }

void ClientSession::on_message(ByteView message, std::int64_t now) {
    if (state_ == SessionState::closed) return;
    heard(now);
    const auto decoded = decode(message);
    if (!decoded) return close(Reason::protocol, 0, decoded.error().text());
    if (common(*decoded, now)) return;
    if (const auto* welcome = std::get_if<Welcome>(&*decoded)) return on_welcome(*welcome);
    if (state_ == SessionState::hello) return close(Reason::protocol, 0, "a message before WELCOME");
    if (const auto* ack = std::get_if<Ack>(&*decoded)) return on_ack(*ack);
    if (const auto* credit = std::get_if<Credit>(&*decoded)) {
        credit_bytes_ = std::max(credit_bytes_, credit->credit_bytes);
        return;
    }
    if (const auto* nack = std::get_if<Nack>(&*decoded)) {
        landed(nack->id);
        events_.push_back(Nacked{*nack});
        return;
    }
    if (const auto* throttle = std::get_if<Throttle>(&*decoded)) {
        throttled_until_ns_ = now + std::int64_t{throttle->pause_ms} * 1'000'000;
        return;
    }
    close(Reason::protocol, 0, "a message only agents send");
}

void ClientSession::on_welcome(const Welcome& m) {
    if (state_ != SessionState::hello) return close(Reason::protocol, 0, "a second WELCOME");
    if (m.version != protocol_version) return close(Reason::version, 0, "receiver speaks another version");
    state_ = SessionState::open;
    credit_bytes_ = m.credit_bytes;
    ping_ns_ = std::int64_t{std::clamp(m.ping_ms, 1000U, 20'000U)} * 1'000'000;
    events_.push_back(Welcomed{m});
}

void ClientSession::on_ack(const Ack& m) {
    for (const LaneSets& sets : m.lanes) {
        for (const Interval& i : sets.received.intervals()) {
            auto it = in_flight_.lower_bound(ParcelId{sets.start, sets.lane, Seq{i.first}});
            while (it != in_flight_.end() && it->first.start == sets.start && it->first.lane == sets.lane &&
                   raw(it->first.seq) <= i.last) {
                in_flight_bytes_ -= it->second;
                it = in_flight_.erase(it);
            }
        }
        events_.push_back(Progressed{sets});
    }
    for (const Refused& r : m.refused) {
        if (r.section == 0xFFFF) landed(r.id);
        events_.push_back(RefusedEvent{r});
    }
}

void ClientSession::landed(const ParcelId& id) {
    const auto it = in_flight_.find(id);
    if (it == in_flight_.end()) return;
    in_flight_bytes_ -= it->second;
    in_flight_.erase(it);
}

bool ClientSession::can_send(std::int64_t now) const {
    return state_ == SessionState::open && sent_bytes_ < credit_bytes_ && now >= throttled_until_ns_;
}

void ClientSession::send(const ParcelId& id, Payload payload, std::int64_t now) {
    TALLY_ASSERT(state_ == SessionState::open && payload);
    std::uint8_t prefix[parcel_prefix_bytes];
    encode_parcel_prefix(id, static_cast<std::uint32_t>(payload->size()), prefix);
    Output out{Bytes(prefix, prefix + parcel_prefix_bytes), std::move(payload)};
    sent_bytes_ += out.bytes();
    if (in_flight_.emplace(id, out.bytes()).second) in_flight_bytes_ += out.bytes();
    output_.push_back(std::move(out));
    said_ns_ = now;
}

void ClientSession::flush_store(std::int64_t now) {
    if (state_ == SessionState::open) say(Flush{}, now);
}

}  // namespace tally::wire
