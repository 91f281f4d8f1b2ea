// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <functional>

#include "agent/ring/attach.hpp"
#include "tests/unit/ring/fixture.hpp"

using namespace tally;
using namespace tally::ring;
using namespace tally::ring::test;

namespace {

struct Dir {
    Dir() {
        char name[] = "/tmp/ring-attach-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Dir() {
        ::unlink((path + "/s").c_str());
        ::rmdir(path.c_str());
    }
    std::string socket() const { return path + "/s"; }
    std::string path;
};

class Peer {
public:
    explicit Peer(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        sockaddr_un a{};
        a.sun_family = AF_UNIX;
        std::memcpy(a.sun_path, path.data(), path.size());
        connected = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&a), sizeof(a)) == 0;
    }
    static AttachMessage message(AttachKind kind, std::uint64_t cookie = 0) {
        AttachMessage m{};
        m.magic = attach_magic;
        m.version = 1;
        m.kind = kind;
        m.cookie = cookie;
        return m;
    }
    void send(const void* bytes, std::size_t n, const std::vector<int>& fds = {}) const {
        iovec iov{const_cast<void*>(bytes), n};
        msghdr h{};
        h.msg_iov = &iov;
        h.msg_iovlen = 1;
        Bytes control(CMSG_SPACE((fds.size() + 1) * sizeof(int)));
        if (!fds.empty()) {
            h.msg_control = control.data();
            h.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
            cmsghdr* c = CMSG_FIRSTHDR(&h);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
            std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
        }
        ::sendmsg(fd_.get(), &h, MSG_NOSIGNAL);
    }
    void send(const AttachMessage& m, const std::vector<int>& fds = {}) const { send(&m, sizeof(m), fds); }
    void hello() const { send(message(AttachKind::hello)); }
    void offer(const Ring& ring, std::uint64_t cookie) {
        wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        send(message(AttachKind::offer, cookie), {ring.fd.get(), wake_.get()});
    }
    std::optional<AttachMessage> answer() const {
        AttachMessage m{};
        if (::recv(fd_.get(), &m, sizeof(m), MSG_DONTWAIT) != static_cast<ssize_t>(sizeof(m))) return std::nullopt;
        return m;
    }
    void hang_up() { fd_.reset(); }
    bool connected = false;

private:
    Fd fd_;
    Fd wake_;
};

std::size_t open_descriptors() {
    std::size_t n = 0;
    for (int fd = 0; fd < 1024; ++fd) n += ::fcntl(fd, F_GETFD) >= 0 ? 1U : 0U;
    return n;
}

}  // namespace

TEST_CASE("a ring is offered, accepted, and its end reported with or without a bye") {
    Dir dir;
    auto server = AttachServer::open(dir.socket(), {});
    REQUIRE(server.has_value());
    Ring ring;
    for (const bool bye : {true, false}) {
        Peer peer(dir.socket());
        peer.hello();
        peer.offer(ring, 42);
        auto events = server->poll(0);
        if (events.empty()) events = server->poll(0);
        REQUIRE(events.size() == 1);
        auto& offered = std::get<Offered>(events[0]);
        CHECK(offered.cookie == 42);
        CHECK(offered.uid == ::getuid());
        CHECK(offered.pid == ::getpid());
        CHECK(offered.ring.kind() == RingKind::scalar);
        CHECK(server->budget()->used() == offered.ring.bytes());
        server->accept(offered.connection, offered.cookie);
        const auto answer = peer.answer();
        REQUIRE(answer.has_value());
        CHECK(answer->kind == AttachKind::accept);
        CHECK(answer->cookie == 42);
        if (bye) peer.send(Peer::message(AttachKind::bye));
        peer.hang_up();
        const auto ended = server->poll(0);
        REQUIRE(ended.size() == 1);
        CHECK(std::get<ConnectionEnded>(ended[0]).bye == bye);
        events.clear();
        CHECK(server->budget()->used() == 0);
        CHECK(server->connections() == 0);
    }
}

TEST_CASE("a refusal names the budget that is used up, and a ring offered again is charged once") {
    Dir dir;
    Options options;
    options.user_bytes_max = 300 * 1024;
    auto server = AttachServer::open(dir.socket(), options);
    Ring first;
    Ring second;
    Ring third;
    Peer peer(dir.socket());
    peer.hello();
    peer.offer(first, 1);
    peer.offer(second, 2);
    peer.offer(first, 3);
    peer.offer(third, 4);
    std::vector<AttachEvent> events;
    for (int i = 0; i < 3; ++i)
        for (auto& e : server->poll(0)) events.push_back(std::move(e));
    CHECK(events.size() == 3);
    CHECK(server->budget()->used() == 2 * (data_bytes_min + 8192 + 65536));
    const auto answer = peer.answer();
    REQUIRE(answer.has_value());
    CHECK(answer->kind == AttachKind::refuse);
    CHECK(answer->code == Refusal::user_budget);
    CHECK(answer->cookie == 4);
    CHECK(std::string_view(answer->text, answer->text_bytes).starts_with("[ring] user_bytes_max = 300"));

    Options total;
    total.user_bytes_max = 1 << 30;
    total.total_bytes_max = 1000;
    const auto budget = Budget::make({total.user_bytes_max, total.total_bytes_max});
    CHECK(budget->charge({1, 1}, 5, 1001).error().code == Refusal::total_budget);
}

TEST_CASE("garbage costs a peer its own connection and nobody else anything") {
    Dir dir;
    auto server = AttachServer::open(dir.socket(), {});
    Ring ring;
    Peer good(dir.socket());
    good.hello();
    server->poll(0);
    server->poll(0);
    const std::size_t descriptors = open_descriptors();
    const std::vector<std::function<void(Peer&)>> attacks = {
        [](Peer& p) { p.send("hi", 2); },
        [](Peer& p) { Bytes big(4096, 0xAA); p.send(big.data(), big.size()); },
        [](Peer& p) { p.send(Peer::message(AttachKind::offer)); },
        [](Peer& p) { p.hello(); p.hello(); },
        [](Peer& p) { p.hello(); p.send(Peer::message(AttachKind::offer, 1)); },
        [](Peer& p) { p.hello(); p.send(Peer::message(AttachKind::accept, 1)); },
        [&](Peer& p) { p.hello(); p.send(Peer::message(AttachKind::offer, 1), {ring.fd.get()}); },
        [&](Peer& p) { p.hello(); p.send(Peer::message(AttachKind::offer, 1), std::vector<int>(200, ring.fd.get())); },
        [](Peer& p) { auto m = Peer::message(AttachKind::hello); m.magic = 1; p.send(m); },
        [](Peer& p) { auto m = Peer::message(AttachKind::hello); m.text_bytes = 9999; p.send(m); },
        [](Peer& p) { auto m = Peer::message(AttachKind::hello); m.version = 9; p.send(m); },
    };
    for (std::size_t i = 0; i < attacks.size(); ++i) {
        CAPTURE(i);
        std::vector<AttachEvent> events;
        {
            Peer bad(dir.socket());
            attacks[i](bad);
            for (int k = 0; k < 4; ++k)
                for (auto& e : server->poll(0)) events.push_back(std::move(e));
            CHECK(server->connections() == 1);
        }
        REQUIRE(events.size() == 1);
        CHECK(!std::get<ConnectionEnded>(events[0]).bye);
    }
    CHECK(open_descriptors() == descriptors);
    good.offer(ring, 7);
    const auto events = server->poll(0);
    REQUIRE(events.size() == 1);
    CHECK(std::get<Offered>(events[0]).cookie == 7);
}

TEST_CASE("a pipe or a file in place of the eventfd is refused, the connection goes on") {
    Dir dir;
    auto server = AttachServer::open(dir.socket(), {});
    Ring ring;
    Peer peer(dir.socket());
    peer.hello();
    const Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    peer.send(Peer::message(AttachKind::offer, 5), {ring.fd.get(), file.get()});
    server->poll(0);
    server->poll(0);
    const auto answer = peer.answer();
    REQUIRE(answer.has_value());
    CHECK(answer->code == Refusal::identity);
    CHECK(server->connections() == 1);
    server->set_draining();
    peer.offer(ring, 6);
    server->poll(0);
    CHECK(peer.answer()->code == Refusal::draining);
}

TEST_CASE("a peer that never says hello, or never reads its answers, is let go") {
    Dir dir;
    auto server = AttachServer::open(dir.socket(), {});
    Peer silent(dir.socket());
    server->poll(0);
    CHECK(server->connections() == 1);
    server->poll(AttachServer::hello_within_ns + 1);
    CHECK(server->connections() == 0);

    Peer deaf(dir.socket());
    deaf.hello();
    server->poll(0);
    server->poll(0);
    for (int i = 0; i < 100000 && server->connections() == 1; ++i) {
        server->accept(ConnectionId{2}, 1);
        if (i % 100 == 0) server->poll(0);
    }
    CHECK(server->connections() == 0);
}

TEST_CASE("a socket file somebody serves is left alone, a stale one is replaced, another file is never removed") {
    Dir dir;
    {
        auto first = AttachServer::open(dir.socket(), {});
        REQUIRE(first.has_value());
        const auto second = AttachServer::open(dir.socket(), {});
        REQUIRE(!second.has_value());
        CHECK(second.error().code == Code::busy);
        Peer peer(dir.socket());
        CHECK(peer.connected);
    }
    CHECK(::access(dir.socket().c_str(), F_OK) != 0);
    {
        const Fd stale(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
        sockaddr_un a{};
        a.sun_family = AF_UNIX;
        std::memcpy(a.sun_path, dir.socket().data(), dir.socket().size());
        REQUIRE(::bind(stale.get(), reinterpret_cast<sockaddr*>(&a), sizeof(a)) == 0);
    }
    CHECK(AttachServer::open(dir.socket(), {}).has_value());
    { const Fd file(::open(dir.socket().c_str(), O_CREAT | O_WRONLY, 0600)); }
    const auto refused = AttachServer::open(dir.socket(), {});
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code == Code::busy);
    CHECK(::access(dir.socket().c_str(), F_OK) == 0);
    CHECK(AttachServer::open(std::string(200, 'x'), {}).error().code == Code::invalid);
}
