// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/messages.hpp"

namespace tally::wire {

namespace {

constexpr std::uint8_t flag_optional = 1;
constexpr std::size_t text_bytes_max = 4096;
constexpr std::uint32_t entries_max = 1U << 16;

std::string_view cut(std::string_view s) { return s.substr(0, text_bytes_max); }

template <class Body>
Bytes framed(Kind kind, std::uint8_t flags, Body&& body) {
    Bytes out;
    ByteWriter w(out);
    w.put(static_cast<std::uint8_t>(kind));
    w.put(flags);
    w.put(std::uint16_t{0});
    w.put(std::uint32_t{0});
    body(w);
    w.patch(4, static_cast<std::uint32_t>(out.size() - message_header_bytes));
    return out;
}

void put_id(ByteWriter& w, const ParcelId& id) {
    w.put(raw(id.start));
    w.put(static_cast<std::uint8_t>(id.lane));
    w.put(raw(id.seq));
}

void put_sets(ByteWriter& w, const std::vector<LaneSets>& lanes) {
    w.put(static_cast<std::uint32_t>(lanes.size()));
    for (const LaneSets& l : lanes) {
        w.put(raw(l.start));
        w.put(static_cast<std::uint8_t>(l.lane));
        l.received.write(w);
        l.stored.write(w);
    }
}

bool get_lane(ByteReader& in, Lane& lane) {
    const auto v = in.get<std::uint8_t>();
    if (v >= lane_count) return false;
    lane = static_cast<Lane>(v);
    return true;
}

bool get_id(ByteReader& in, ParcelId& id) {
    id.start = StartId{in.get<std::uint64_t>()};
    if (!get_lane(in, id.lane)) return false;
    id.seq = Seq{in.get<std::uint64_t>()};
    return raw(id.start) != 0 && raw(id.seq) != 0;
}

// Every entry takes at least `entry_bytes`, so a hostile count reserves nothing.
bool get_count(ByteReader& in, std::uint32_t& count, std::size_t entry_bytes) {
    count = in.get<std::uint32_t>();
    return in.ok() && count <= entries_max && in.left() / entry_bytes >= count;
}

bool get_sets(ByteReader& in, std::vector<LaneSets>& lanes) {
    std::uint32_t n = 0;
    if (!get_count(in, n, 17)) return false;
    for (std::uint32_t i = 0; i < n; ++i) {
        LaneSets l;
        l.start = StartId{in.get<std::uint64_t>()};
        if (!get_lane(in, l.lane)) return false;
        auto received = IntervalSet::read(in);
        if (!received) return false;
        auto stored = IntervalSet::read(in);
        if (!stored) return false;
        l.received = std::move(*received);
        l.stored = std::move(*stored);
        lanes.push_back(std::move(l));
    }
    return true;
}

struct Encoder {
    Bytes operator()(const Hello& m) const {
        return framed(Kind::hello, 0, [&](ByteWriter& w) {
            w.put(m.version_min);
            w.put(m.version_max);
            w.put(m.features);
            w.put(m.spool);
            w.put(raw(m.start));
            w.put(m.session);
            w.put(m.sessions);
            w.text16(cut(m.agent_version));
            w.text16(cut(m.host));
            w.put(static_cast<std::uint32_t>(m.lanes.size()));
            for (const LaneRange& l : m.lanes) {
                w.put(raw(l.start));
                w.put(static_cast<std::uint8_t>(l.lane));
                w.put(l.oldest);
                w.put(l.newest);
            }
        });
    }
    Bytes operator()(const Welcome& m) const {
        return framed(Kind::welcome, 0, [&](ByteWriter& w) {
            w.put(m.version);
            w.put(m.features);
            w.put(m.receiver);
            w.put(m.message_bytes_max);
            w.put(m.credit_bytes);
            w.put(m.ping_ms);
            w.put(m.ack_level);
            put_sets(w, m.known);
        });
    }
    Bytes operator()(const Parcel& m) const {
        std::uint8_t prefix[parcel_prefix_bytes];
        encode_parcel_prefix(m.id, static_cast<std::uint32_t>(m.bytes.size()), prefix);
        Bytes out(prefix, prefix + parcel_prefix_bytes);
        out.insert(out.end(), m.bytes.begin(), m.bytes.end());
        return out;
    }
    Bytes operator()(const Ack& m) const {
        return framed(Kind::ack, 0, [&](ByteWriter& w) {
            put_sets(w, m.lanes);
            w.put(static_cast<std::uint32_t>(m.refused.size()));
            for (const Refused& r : m.refused) {
                put_id(w, r.id);
                w.put(r.section);
                w.put(static_cast<std::uint16_t>(r.reason));
                w.text16(cut(r.why));
            }
        });
    }
    Bytes operator()(const Credit& m) const {
        return framed(Kind::credit, 0, [&](ByteWriter& w) { w.put(m.credit_bytes); });
    }
    Bytes operator()(const Nack& m) const {
        return framed(Kind::nack, 0, [&](ByteWriter& w) {
            put_id(w, m.id);
            w.put(static_cast<std::uint16_t>(m.reason));
            w.put(m.retry_after_ms);
            w.text16(cut(m.why));
        });
    }
    Bytes operator()(const Throttle& m) const {
        return framed(Kind::throttle, 0, [&](ByteWriter& w) { w.put(m.pause_ms); });
    }
    Bytes operator()(const Ping& m) const {
        return framed(Kind::ping, 0, [&](ByteWriter& w) { w.put(m.token); });
    }
    Bytes operator()(const Pong& m) const {
        return framed(Kind::pong, 0, [&](ByteWriter& w) { w.put(m.token); });
    }
    Bytes operator()(const GoAway& m) const {
        return framed(Kind::goaway, 0, [&](ByteWriter& w) {
            w.put(static_cast<std::uint16_t>(m.reason));
            w.put(m.retry_after_ms);
            w.text16(cut(m.why));
        });
    }
    Bytes operator()(const Flush& m) const {
        return framed(Kind::flush, flag_optional, [&](ByteWriter& w) { w.put(m.level); });
    }
    Bytes operator()(const Skipped&) const { return {}; }
};

Result<Message> checked(const ByteReader& in, bool valid, Message message) {
    if (!in.ok()) return fail(Code::truncated, "message is shorter than its fields");
    if (!valid) return fail(Code::corrupt, "message fields make no sense");
    return message;
}

Result<Message> decode_hello(ByteReader& in) {
    Hello m;
    m.version_min = in.get<std::uint16_t>();
    m.version_max = in.get<std::uint16_t>();
    m.features = in.get<std::uint64_t>();
    m.spool = in.get<Uuid>();
    m.start = StartId{in.get<std::uint64_t>()};
    m.session = in.get<std::uint16_t>();
    m.sessions = in.get<std::uint16_t>();
    m.agent_version = in.text16();
    m.host = in.text16();
    std::uint32_t n = 0;
    bool valid = get_count(in, n, 25);
    for (std::uint32_t i = 0; valid && i < n; ++i) {
        LaneRange l;
        l.start = StartId{in.get<std::uint64_t>()};
        valid = get_lane(in, l.lane);
        l.oldest = in.get<std::uint64_t>();
        l.newest = in.get<std::uint64_t>();
        m.lanes.push_back(l);
    }
    return checked(in, valid, std::move(m));
}

Result<Message> decode_welcome(ByteReader& in) {
    Welcome m;
    m.version = in.get<std::uint16_t>();
    m.features = in.get<std::uint64_t>();
    m.receiver = in.get<Uuid>();
    m.message_bytes_max = in.get<std::uint32_t>();
    m.credit_bytes = in.get<std::uint64_t>();
    m.ping_ms = in.get<std::uint32_t>();
    m.ack_level = in.get<std::uint8_t>();
    const bool valid = get_sets(in, m.known);
    return checked(in, valid, std::move(m));
}

Result<Message> decode_parcel(ByteReader& in) {
    Parcel m;
    m.id.start = StartId{in.get<std::uint64_t>()};
    bool valid = get_lane(in, m.id.lane);
    in.bytes(7);
    m.id.seq = Seq{in.get<std::uint64_t>()};
    m.bytes = in.bytes(in.left());
    valid = valid && raw(m.id.start) != 0 && raw(m.id.seq) != 0;
    return checked(in, valid, m);
}

Result<Message> decode_ack(ByteReader& in) {
    Ack m;
    bool valid = get_sets(in, m.lanes);
    std::uint32_t n = 0;
    valid = valid && get_count(in, n, 23);
    for (std::uint32_t i = 0; valid && i < n; ++i) {
        Refused r;
        valid = get_id(in, r.id);
        r.section = in.get<std::uint16_t>();
        r.reason = static_cast<Reason>(in.get<std::uint16_t>());
        r.why = in.text16();
        m.refused.push_back(std::move(r));
    }
    return checked(in, valid, std::move(m));
}

Result<Message> decode_nack(ByteReader& in) {
    Nack m;
    const bool valid = get_id(in, m.id);
    m.reason = static_cast<Reason>(in.get<std::uint16_t>());
    m.retry_after_ms = in.get<std::uint32_t>();
    m.why = in.text16();
    return checked(in, valid, std::move(m));
}

Result<Message> decode_goaway(ByteReader& in) {
    GoAway m;
    m.reason = static_cast<Reason>(in.get<std::uint16_t>());
    m.retry_after_ms = in.get<std::uint32_t>();
    m.why = in.text16();
    return checked(in, true, std::move(m));
}

}  // namespace

const char* reason_name(Reason reason) noexcept {
    switch (reason) {
        case Reason::none: return "none";
        case Reason::protocol: return "protocol";
        case Reason::version: return "version";
        case Reason::denied: return "denied";
        case Reason::too_big: return "too_big";
        case Reason::corrupt: return "corrupt";
        case Reason::conflict: return "conflict";
        case Reason::unsupported: return "unsupported";
        case Reason::busy: return "busy";
        case Reason::full: return "full";
        case Reason::draining: return "draining";
        case Reason::internal: return "internal";
        case Reason::unacceptable: return "unacceptable";
    }
    return "unknown";
}

bool refused_for_good(Reason reason) noexcept {
    return reason == Reason::too_big || reason == Reason::corrupt || reason == Reason::conflict ||
           reason == Reason::unsupported || reason == Reason::unacceptable;
}

Bytes encode(const Message& message) { return std::visit(Encoder{}, message); }

void encode_parcel_prefix(const ParcelId& id, std::uint32_t parcel_bytes, std::uint8_t (&out)[parcel_prefix_bytes]) {
    std::memset(out, 0, sizeof out);
    out[0] = static_cast<std::uint8_t>(Kind::parcel);
    const std::uint32_t body = parcel_bytes + parcel_prefix_bytes - message_header_bytes;
    const std::uint64_t start = raw(id.start);
    const std::uint64_t seq = raw(id.seq);
    std::memcpy(out + 4, &body, sizeof body);
    std::memcpy(out + 8, &start, sizeof start);
    out[16] = static_cast<std::uint8_t>(id.lane);
    std::memcpy(out + 24, &seq, sizeof seq);
}

Result<Message> decode(ByteView message) {
    if (message.size() > message_bytes_max) return fail(Code::too_big, "message", message.size());
    ByteReader in(message);
    const auto kind = in.get<std::uint8_t>();
    const auto flags = in.get<std::uint8_t>();
    in.get<std::uint16_t>();
    const auto body_bytes = in.get<std::uint32_t>();
    if (!in.ok()) return fail(Code::truncated, "message header");
    if (body_bytes != in.left()) return fail(Code::corrupt, "message length does not fit its header", body_bytes);
    switch (static_cast<Kind>(kind)) {
        case Kind::hello: return decode_hello(in);
        case Kind::welcome: return decode_welcome(in);
        case Kind::parcel: return decode_parcel(in);
        case Kind::ack: return decode_ack(in);
        case Kind::credit: {
            const Credit m{in.get<std::uint64_t>()};
            return checked(in, true, m);
        }
        case Kind::nack: return decode_nack(in);
        case Kind::throttle: {
            const Throttle m{in.get<std::uint32_t>()};
            return checked(in, true, m);
        }
        case Kind::ping: {
            const Ping m{in.get<std::uint64_t>()};
            return checked(in, true, m);
        }
        case Kind::pong: {
            const Pong m{in.get<std::uint64_t>()};
            return checked(in, true, m);
        }
        case Kind::goaway: return decode_goaway(in);
        case Kind::flush: {
            const Flush m{in.get<std::uint8_t>()};
            return checked(in, true, m);
        }
    }
    if ((flags & flag_optional) != 0) return Message{Skipped{}};
    return fail(Code::unsupported, "message kind", kind);
}

}  // namespace tally::wire
