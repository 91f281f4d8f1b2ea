// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The messages of the wire, decoded, and their bytes.
// Format  transport/PROTOCOL.md, version 1.
// Errors  decode: truncated, corrupt, too_big, unsupported (kind unknown and not optional).
// Threads Values; any thread.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/interval_set.hpp"
#include "agent/base/types.hpp"

namespace tally::wire {

inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::uint32_t message_bytes_max = (16U << 20) + 64;
inline constexpr std::uint32_t message_header_bytes = 8;
inline constexpr std::uint32_t parcel_prefix_bytes = 32;  // message header + PARCEL fields before the parcel

enum class Kind : std::uint8_t {
    hello = 1, welcome = 2, parcel = 3, ack = 4, credit = 5, nack = 6, throttle = 7, ping = 8, pong = 9, goaway = 10,
    flush = 11,
};
enum class Reason : std::uint16_t {
    none = 0, protocol = 1, version = 2, denied = 3, too_big = 4, corrupt = 5, conflict = 6, unsupported = 7, busy = 8,
    full = 9, draining = 10, internal = 11, unacceptable = 12,
};
const char* reason_name(Reason reason) noexcept;
// True when the sender of the parcel must park it instead of sending it again.
bool refused_for_good(Reason reason) noexcept;

struct LaneRange {
    StartId start{};
    Lane lane = Lane::live;
    std::uint64_t oldest = 0;
    std::uint64_t newest = 0;
};
struct LaneSets {
    StartId start{};
    Lane lane = Lane::live;
    IntervalSet received;
    IntervalSet stored;
};

struct Hello {
    std::uint16_t version_min = protocol_version;
    std::uint16_t version_max = protocol_version;
    std::uint64_t features = 0;
    Uuid spool;
    StartId start{};
    std::uint16_t session = 0;
    std::uint16_t sessions = 1;
    std::string agent_version;
    std::string host;
    std::vector<LaneRange> lanes;
};
struct Welcome {
    std::uint16_t version = protocol_version;
    std::uint64_t features = 0;
    Uuid receiver;
    std::uint32_t message_bytes_max = wire::message_bytes_max;
    std::uint64_t credit_bytes = 0;
    std::uint32_t ping_ms = 15'000;
    std::uint8_t ack_level = 0;
    std::vector<LaneSets> known;
};
struct Parcel {
    ParcelId id;
    ByteView bytes;  // into the decoded message
};
struct Refused {
    ParcelId id;
    std::uint16_t section = 0xFFFF;
    Reason reason = Reason::none;
    std::string why;
};
struct Ack {
    std::vector<LaneSets> lanes;
    std::vector<Refused> refused;
};
struct Credit {
    std::uint64_t credit_bytes = 0;
};
struct Nack {
    ParcelId id;
    Reason reason = Reason::none;
    std::uint32_t retry_after_ms = 0;
    std::string why;
};
struct Throttle {
    std::uint32_t pause_ms = 0;
};
struct Ping {
    std::uint64_t token = 0;
};
struct Pong {
    std::uint64_t token = 0;
};
struct GoAway {
    Reason reason = Reason::none;
    std::uint32_t retry_after_ms = 0;
    std::string why;
};
struct Flush {
    std::uint8_t level = 2;
};
struct Skipped {};  // unknown but optional

using Message =
    std::variant<Hello, Welcome, Parcel, Ack, Credit, Nack, Throttle, Ping, Pong, GoAway, Flush, Skipped>;

// One whole WebSocket message each.
Bytes encode(const Message& message);
// The 32 bytes before a parcel of this size; the parcel follows as it is (no copy).
void encode_parcel_prefix(const ParcelId& id, std::uint32_t parcel_bytes, std::uint8_t (&out)[parcel_prefix_bytes]);
Result<Message> decode(ByteView message);

}  // namespace tally::wire
