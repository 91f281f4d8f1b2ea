// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The receiver's side of one session, sans-IO.
// Flow    on_message() -> take_events() -> receiver -> welcome / ack / nack / grant -> take_output().
// Invariants
//   I1  No parcel event before the owner said welcome(); every parcel event carries HELLO's spool.
//   I2  A peer that breaks the protocol gets GOAWAY with a reason, then nothing more is read from it.

#include <variant>

#include "transport/wire/session.hpp"

namespace tally::wire {

struct Greeted {
    Hello hello;
};
struct Arrived {
    ParcelId id;
    ByteView bytes;  // into the message given to on_message
};
struct FlushAsked {};
using ServerEvent = std::variant<Greeted, Arrived, FlushAsked>;

class ServerSession : public SessionBase {
public:
    explicit ServerSession(std::int64_t now) : SessionBase(now) {}

    void on_message(ByteView message, std::int64_t now);
    void on_tick(std::int64_t now) { tick(now); }
    std::vector<ServerEvent> take_events() { return std::exchange(events_, {}); }

    void welcome(const Welcome& welcome, std::int64_t now);
    void ack(const Ack& ack, std::int64_t now) { say(ack, now); }
    void nack(const Nack& nack, std::int64_t now) { say(nack, now); }
    // Raises the total the peer may have sent to what it has sent plus `room_bytes`; says so in steps.
    void grant(std::uint64_t room_bytes, std::int64_t now);

    const Hello& hello() const { return hello_; }
    std::uint64_t received_bytes() const { return received_bytes_; }

private:
    void on_hello(const Hello& m);
    void on_parcel(const Parcel& m, std::size_t message_bytes);

    std::vector<ServerEvent> events_;
    Hello hello_;
    bool greeted_ = false;
    std::uint64_t credit_bytes_ = 0;
    std::uint64_t received_bytes_ = 0;
};

}  // namespace tally::wire
