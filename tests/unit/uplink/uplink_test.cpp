// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "tests/unit/uplink/peer.hpp"
#include "transport/uplink/uplink.hpp"

using namespace tally;
using namespace tally::uplink;

namespace {

const StartId start{7};
const char* const secret = "token-of-this-test";

wire::Welcome welcome_with(std::uint64_t credit = 1U << 30) {
    wire::Welcome w;
    w.receiver = Uuid::random();
    w.credit_bytes = credit;
    return w;
}

wire::Ack ack_of(const ParcelId& id) {
    IntervalSet one;
    one.insert(raw(id.seq));
    wire::Ack ack;
    ack.lanes.push_back({id.start, id.lane, one, {}});
    return ack;
}

// What the far end has, over all its connections.
struct Far {
    std::mutex mutex;
    std::map<ParcelId, std::size_t> landed;
    void land(const wire::Parcel& p) {
        const std::lock_guard lock(mutex);
        landed[p.id] = p.bytes.size();
    }
    std::size_t size() {
        const std::lock_guard lock(mutex);
        return landed.size();
    }
};

// A receiver without faults, from here on.
void serve(Peer& peer, Far& far) {
    if (!peer.welcome(welcome_with())) return;
    while (auto message = peer.hear())
        if (const auto* p = std::get_if<wire::Parcel>(&*message)) {
            far.land(*p);
            peer.say(ack_of(p->id));
        }
}

// The near end: an uplink on its own thread, with what it said back.
class Near {
public:
    explicit Near(const std::string& endpoint, std::uint64_t window = 64U << 20) {
        char name[] = "/tmp/tally-uplink-XXXXXX";
        const int fd = ::mkstemp(name);
        token_ = name;
        REQUIRE(::write(fd, secret, std::char_traits<char>::length(secret)) > 0);
        ::close(fd);
        Options o;
        o.endpoint = endpoint;
        o.token_file = token_;
        o.sessions = 2;
        o.window_bytes = window;
        SpoolInfo info;
        info.uuid = Uuid::random();
        info.start = start;
        auto made = Uplink::open(o, info, queues);
        REQUIRE(made.has_value());
        uplink = std::move(*made);
        thread_ = std::thread([this] { uplink->run(); });
    }
    ~Near() {
        uplink->stop();
        thread_.join();
        ::unlink(token_.c_str());
    }
    void give(Lane lane, std::uint64_t seq, std::size_t bytes = 100) {
        auto& queue = lane == Lane::live ? queues.live : queues.bulk;
        REQUIRE(queue.push(Outbound{{start, lane, Seq{seq}}, std::make_shared<const Bytes>(bytes)}));
        uplink->wake();
    }
    // Takes in what came back; true once `condition` holds.
    template <class Condition>
    bool until(Condition condition) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (std::chrono::steady_clock::now() < end) {
            while (auto in = queues.back.pop()) {
                if (in->kind == Inbound::Kind::received) received[in->lane].insert(in->seqs);
                if (in->kind == Inbound::Kind::stored) stored[in->lane].insert(in->seqs);
                if (in->kind == Inbound::Kind::welcomed) ++welcomed;
                if (in->kind == Inbound::Kind::refused) refused.push_back(std::move(*in));
            }
            uplink->wake();
            if (condition()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return false;
    }
    State state() const { return uplink->stats().state; }

    Queues queues;
    std::unique_ptr<Uplink> uplink;
    std::map<Lane, IntervalSet> received;
    std::map<Lane, IntervalSet> stored;
    std::vector<Inbound> refused;
    int welcomed = 0;

private:
    std::string token_;
    std::thread thread_;
};

// Everything given was landed by the far end and acknowledged to the near end, nothing else was.
void check_all(Near& near, Far& far, std::uint64_t live, std::uint64_t bulk) {
    REQUIRE(near.until([&] { return near.received[Lane::live].count() == live && near.received[Lane::bulk].count() == bulk; }));
    std::set<ParcelId> expected;
    for (std::uint64_t s = 1; s <= live; ++s) expected.insert({start, Lane::live, Seq{s}});
    for (std::uint64_t s = 1; s <= bulk; ++s) expected.insert({start, Lane::bulk, Seq{s}});
    std::set<ParcelId> got;
    for (const auto& [id, bytes] : far.landed) got.insert(id);
    CHECK(got == expected);
    CHECK(near.until([&] { return near.uplink->stats().held_bytes == 0; }));
}

}  // namespace

TEST_CASE("both lanes arrive over their own sessions, with the token and the protocol's path") {
    Far far;
    std::map<Lane, std::set<std::uint16_t>> sessions;
    ScriptedServer server([&](Peer& peer, int) {
        if (!peer.welcome(welcome_with())) return;
        {
            const std::lock_guard lock(far.mutex);
            CHECK(peer.authorization == std::string("Bearer ") + secret);
            CHECK(peer.target == "/v1/ship");
            CHECK(peer.hello.start == start);
        }
        while (auto message = peer.hear())
            if (const auto* p = std::get_if<wire::Parcel>(&*message)) {
                far.land(*p);
                {
                    const std::lock_guard lock(far.mutex);
                    sessions[p->id.lane].insert(peer.hello.session);
                }
                peer.say(ack_of(p->id));
            }
    });
    Near near(server.url());
    for (std::uint64_t s = 1; s <= 40; ++s) {
        near.give(Lane::live, s);
        near.give(Lane::bulk, s, 200'000);
    }
    check_all(near, far, 40, 40);
    CHECK(sessions[Lane::live] == std::set<std::uint16_t>{0});
    CHECK(sessions[Lane::bulk] == std::set<std::uint16_t>{1});
    CHECK(near.state() == State::up);
}

TEST_CASE("a declined upgrade says what kind of trouble it is and loses nothing") {
    struct Row {
        const char* status;
        State state;
    };
    for (const Row& row : {Row{"401 Unauthorized", State::denied}, Row{"403 Forbidden", State::denied},
                           Row{"404 Not Found", State::misconfigured}, Row{"426 Upgrade Required", State::misconfigured},
                           Row{"301 Moved Permanently", State::misconfigured}, Row{"413 Payload Too Large", State::backoff},
                           Row{"429 Too Many Requests", State::backoff}, Row{"500 Internal Server Error", State::backoff},
                           Row{"503 Service Unavailable", State::backoff}}) {
        INFO(row.status);
        Far far;
        std::atomic<bool> healed{false};
        // Only Retry-After brings those back soon whose own pause is a minute.
        ScriptedServer server([&](Peer& peer, int) {
            if (healed) return serve(peer, far);
            peer.decline(row.status, row.state == State::backoff ? "" : "Retry-After: 1\r\n");
        });
        Near near(server.url());
        near.give(Lane::live, 1);
        near.give(Lane::bulk, 1);
        REQUIRE(near.until([&] { return near.state() == row.state; }));
        CHECK(near.uplink->stats().last_error.find(std::string(row.status).substr(0, 3)) != std::string::npos);
        CHECK(near.uplink->stats().last_error.find(secret) == std::string::npos);
        CHECK(far.size() == 0);
        healed = true;
        check_all(near, far, 1, 1);
        CHECK(near.state() == State::up);
    }
}

TEST_CASE("connections cut at every point: what was not acknowledged is sent again, what was is not") {
    Far far;
    ScriptedServer server([&](Peer& peer, int accepted) {
        switch (accepted) {
            case 0: return peer.cut();
            case 1: return peer.hang_up();
            case 2:
                if (peer.accept()) peer.cut();  // HELLO heard, no WELCOME
                return;
            case 3:
                if (peer.welcome(welcome_with())) peer.cut();
                return;
            case 4:
            case 5:
            case 6:
                if (!peer.welcome(welcome_with())) return;
                for (int i = 0; i < 3; ++i) {
                    auto message = peer.hear();
                    if (!message) return;
                    const auto* p = std::get_if<wire::Parcel>(&*message);
                    if (p == nullptr) continue;
                    far.land(*p);
                    if (i == 0) peer.say(ack_of(p->id));  // the acks of the others are lost
                }
                return peer.cut();
            default: return serve(peer, far);
        }
    });
    Near near(server.url());
    for (std::uint64_t s = 1; s <= 20; ++s) {
        near.give(Lane::live, s);
        near.give(Lane::bulk, s, 50'000);
    }
    check_all(near, far, 20, 20);
}

TEST_CASE("acks lost while landed: WELCOME's sets settle them without sending again") {
    std::mutex mutex;
    std::map<ParcelId, int> sent;
    IntervalSet have;
    ScriptedServer server([&](Peer& peer, int accepted) {
        wire::Welcome w = welcome_with();
        {
            const std::lock_guard lock(mutex);
            if (!have.empty()) w.known.push_back({start, Lane::bulk, have, {}});
        }
        if (!peer.welcome(w)) return;
        while (auto message = peer.hear())
            if (const auto* p = std::get_if<wire::Parcel>(&*message)) {
                const std::lock_guard lock(mutex);
                ++sent[p->id];
                have.insert(raw(p->id.seq));
                if (accepted > 1) peer.say(ack_of(p->id));
                if (accepted <= 1 && have.count() == 3) return peer.cut();
            }
    });
    Near near(server.url());
    for (std::uint64_t s = 1; s <= 5; ++s) near.give(Lane::bulk, s);
    REQUIRE(near.until([&] { return near.received[Lane::bulk].count() == 5; }));
    const std::lock_guard lock(mutex);
    for (std::uint64_t s = 1; s <= 3; ++s) CHECK(sent[{start, Lane::bulk, Seq{s}}] == 1);
}

TEST_CASE("NACK, even one that asks for no pause, is sent again; THROTTLE and spent credit only delay") {
    Far far;
    std::atomic<int> nacks{0};
    ScriptedServer server([&](Peer& peer, int) {
        if (!peer.welcome(welcome_with(1000))) return;
        std::uint64_t heard = 0;
        while (auto message = peer.hear())
            if (const auto* p = std::get_if<wire::Parcel>(&*message)) {
                heard += p->bytes.size() + wire::parcel_prefix_bytes;
                if (nacks++ < 5) {
                    peer.say(wire::Nack{p->id, wire::Reason::full, 0, "no room"});
                } else {
                    far.land(*p);
                    if (nacks == 9) peer.say(wire::Throttle{30});
                    peer.say(ack_of(p->id));
                }
                peer.say(wire::Credit{heard + 500});
            }
    });
    Near near(server.url());
    for (std::uint64_t s = 1; s <= 12; ++s) {
        near.give(Lane::live, s, 300);
        near.give(Lane::bulk, s, 300);
    }
    check_all(near, far, 12, 12);
    CHECK(nacks >= 29);
}

TEST_CASE("GOAWAY lets what is in flight be acknowledged and the rest goes to the next connection") {
    Far far;
    ScriptedServer server([&](Peer& peer, int accepted) {
        if (accepted > 1) return serve(peer, far);
        if (!peer.welcome(welcome_with())) return;
        auto message = peer.hear();
        while (message && !std::holds_alternative<wire::Parcel>(*message)) message = peer.hear();
        peer.say(wire::GoAway{wire::Reason::draining, 0, "going down"});
        for (; message; message = peer.hear())
            if (const auto* p = std::get_if<wire::Parcel>(&*message)) {
                far.land(*p);
                peer.say(ack_of(p->id));
            }
    });
    Near near(server.url());
    for (std::uint64_t s = 1; s <= 10; ++s) {
        near.give(Lane::live, s);
        near.give(Lane::bulk, s);
    }
    check_all(near, far, 10, 10);
}

TEST_CASE("a refused parcel comes back with its bytes to be parked; a refused section does not") {
    Far far;
    ScriptedServer server([&](Peer& peer, int) {
        if (!peer.welcome(welcome_with())) return;
        while (auto message = peer.hear())
            if (const auto* p = std::get_if<wire::Parcel>(&*message)) {
                wire::Ack ack;
                if (raw(p->id.seq) != 1) {
                    far.land(*p);
                    ack = ack_of(p->id);
                }
                if (raw(p->id.seq) <= 2)
                    ack.refused.push_back({p->id, static_cast<std::uint16_t>(raw(p->id.seq) == 1 ? 0xFFFF : 3), wire::Reason::corrupt, "bad bytes"});
                peer.say(ack);
            }
    });
    Near near(server.url());
    for (std::uint64_t s = 1; s <= 3; ++s) near.give(Lane::bulk, s, 77);
    REQUIRE(near.until([&] { return near.refused.size() == 1 && near.received[Lane::bulk].count() == 2; }));
    CHECK(raw(near.refused[0].id.seq) == 1);
    REQUIRE(near.refused[0].payload);
    CHECK(near.refused[0].payload->size() == 77);
    CHECK(near.refused[0].why.find("bad bytes") != std::string::npos);
    CHECK(far.landed.size() == 2);
}

TEST_CASE("a peer that breaks the protocol loses its session, not our parcels") {
    Far far;
    ScriptedServer server([&](Peer& peer, int accepted) {
        const Bytes garbage(64, 0xEE);
        switch (accepted) {
            case 0:
                if (peer.accept()) peer.say_raw(garbage);
                break;
            case 1:
                if (peer.accept()) peer.say(ack_of({start, Lane::live, Seq{1}}));  // before WELCOME: not believed
                break;
            case 2:
                if (peer.welcome(welcome_with())) peer.say(welcome_with());
                break;
            case 3: {
                wire::Welcome other = welcome_with();
                other.version = 9;
                peer.welcome(other);
                break;
            }
            case 4:
                if (peer.welcome(welcome_with())) peer.say(wire::Hello{});
                break;
            case 5:
                // Acknowledges what nobody sent: of no effect.
                if (peer.welcome(welcome_with())) peer.say(ack_of({StartId{99}, Lane::bulk, Seq{1}}));
                peer.cut();
                break;
            default: return serve(peer, far);
        }
        while (peer.hear()) {
        }
    });
    Near near(server.url());
    for (std::uint64_t s = 1; s <= 5; ++s) {
        near.give(Lane::live, s);
        near.give(Lane::bulk, s);
    }
    REQUIRE(near.until([&] { return far.size() == 10; }));
    CHECK(server.accepted() >= 6);
}

TEST_CASE("while the receiver is away memory stays at the window; paused sends nothing") {
    Far far;
    std::atomic<bool> open{false};
    ScriptedServer server([&](Peer& peer, int) {
        if (!open) return peer.cut();
        serve(peer, far);
    });
    Near near(server.url(), 1'000'000);
    for (std::uint64_t s = 1; s <= 200; ++s) near.give(Lane::bulk, s, 100'000);
    CHECK(near.until([&] { return near.uplink->stats().held_bytes >= 1'000'000; }));
    CHECK(near.uplink->stats().held_bytes <= 1'100'000);  // one parcel past the line
    near.uplink->pause(true);
    REQUIRE(near.until([&] { return near.state() == State::paused; }));
    open = true;
    const int before = server.accepted();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK(server.accepted() <= before + 2);  // those already under way
    CHECK(far.size() == 0);
    near.uplink->pause(false);
    check_all(near, far, 0, 200);
}

TEST_CASE("plaintext leaves the host only when told to; a missing token is a state, not an end") {
    Queues queues;
    Options o;
    o.endpoint = "ws://192.0.2.1:7411";
    CHECK(Uplink::open(o, {}, queues).error().code == Code::denied);
    o.allow_plaintext = true;
    CHECK(Uplink::open(o, {}, queues).has_value());

    o.endpoint = "ws://127.0.0.1:1";
    o.token_file = "/nonexistent/token";
    auto uplink = Uplink::open(o, {}, queues);
    REQUIRE(uplink.has_value());
    std::thread thread([&] { (*uplink)->run(); });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while ((*uplink)->stats().state != State::denied && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    CHECK((*uplink)->stats().state == State::denied);
    CHECK((*uplink)->stats().last_error.find("/nonexistent/token") != std::string::npos);
    (*uplink)->stop();
    thread.join();
}
