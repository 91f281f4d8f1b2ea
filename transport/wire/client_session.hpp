// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The agent's side of one session, sans-IO.
// Flow    uplink -> send() -> take_output(); on_message() -> take_events() -> uplink.
// Invariants
//   I1  A parcel leaves in_flight() only by an ACK or NACK that names it; what is left when the session ends is the
//       owner's to send elsewhere.
//   I2  Sent PARCEL bytes never exceed the granted credit by more than one message.

#include <map>
#include <variant>

#include "transport/wire/session.hpp"

namespace tally::wire {

struct Welcomed {
    Welcome welcome;
};
struct Progressed {
    LaneSets sets;
};
struct RefusedEvent {
    Refused refused;
};
struct Nacked {
    Nack nack;
};
using ClientEvent = std::variant<Welcomed, Progressed, RefusedEvent, Nacked>;

class ClientSession : public SessionBase {
public:
    ClientSession(const Hello& hello, std::int64_t now);

    void on_message(ByteView message, std::int64_t now);
    void on_tick(std::int64_t now) { tick(now); }
    std::vector<ClientEvent> take_events() { return std::exchange(events_, {}); }

    bool can_send(std::int64_t now) const;
    void send(const ParcelId& id, Payload payload, std::int64_t now);
    void flush_store(std::int64_t now);

    const std::map<ParcelId, std::size_t>& in_flight() const { return in_flight_; }
    std::size_t in_flight_bytes() const { return in_flight_bytes_; }

private:
    void on_welcome(const Welcome& m);
    void on_ack(const Ack& m);
    void landed(const ParcelId& id);

    std::vector<ClientEvent> events_;
    std::map<ParcelId, std::size_t> in_flight_;
    std::size_t in_flight_bytes_ = 0;
    std::uint64_t credit_bytes_ = 0;
    std::uint64_t sent_bytes_ = 0;
    std::int64_t throttled_until_ns_ = 0;
};

}  // namespace tally::wire
