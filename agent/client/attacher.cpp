// SPDX-License-Identifier: Apache-2.0
#include "agent/client/attacher.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

namespace tally::client {

namespace {

constexpr int backoff_first_ms = 100;
constexpr int backoff_max_ms = 2000;

ring::AttachMessage message(ring::AttachKind kind, std::uint64_t cookie) {
    ring::AttachMessage m{};
    m.magic = ring::attach_magic;
    m.version = 1;
    m.kind = kind;
    m.cookie = cookie;
    return m;
}

}  // namespace

pthread_mutex_t Attacher::all_mutex_ = PTHREAD_MUTEX_INITIALIZER;
Attacher* Attacher::all_ = nullptr;

void Attacher::enlist() {
    pthread_mutex_lock(&all_mutex_);
    next_attacher_ = all_;
    all_ = this;
    pthread_mutex_unlock(&all_mutex_);
}

void Attacher::delist() {
    pthread_mutex_lock(&all_mutex_);
    for (Attacher** at = &all_; *at != nullptr; at = &(*at)->next_attacher_) {
        if (*at != this) continue;
        *at = next_attacher_;
        break;
    }
    pthread_mutex_unlock(&all_mutex_);
}

// No locks: their holders do not exist here. Lists only grow at the head, so what is reachable is whole.
void Attacher::close_inherited() {
    for (Attacher* a = all_; a != nullptr; a = a->next_attacher_) {
        if (a->socket_ >= 0) ::close(a->socket_);
        if (a->kick_fd_ >= 0) ::close(a->kick_fd_);
        for (ClientRing* r = a->rings_; r != nullptr; r = r->next) {
            ::close(r->memfd);
            ::close(r->wake_fd);
        }
    }
    all_ = nullptr;
    pthread_mutex_init(&all_mutex_, nullptr);
}

std::int64_t clock_ns(int clock) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

void futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t value, std::int64_t timeout_ns) {
    if (timeout_ns <= 0) return;
    timespec t{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    ::syscall(SYS_futex, word, FUTEX_WAIT, value, &t, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>* word) { ::syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

void ClientRing::wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_fd, &one, sizeof one);
}

int Attacher::start(const char* socket_path) {
    if (std::strlen(socket_path) >= sizeof path_) return -ENAMETOOLONG;
    std::strcpy(path_, socket_path);
    kick_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kick_fd_ < 0) return -errno;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);  // programs with large static TLS need it
    const int rc = pthread_create(&thread_, &attributes, thread_main, this);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    started_ = rc == 0;
    if (started_) enlist();
    return -rc;
}

void Attacher::add(ClientRing* ring) {
    pthread_mutex_lock(&mutex_);
    ring->cookie = next_cookie_++;
    ring->next = rings_;
    rings_ = ring;
    pthread_mutex_unlock(&mutex_);
    kick();
}

int Attacher::wait_answer(const ClientRing* ring, std::int64_t timeout_ns) {
    const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + timeout_ns;
    for (;;) {
        const std::uint32_t dials = dialled_.load();
        const std::uint32_t state = ring->state.load();
        if (state == 2) return 0;
        if (state == 3) return 1;
        const std::int64_t left = until - clock_ns(CLOCK_MONOTONIC);
        if (left <= 0) return -ETIMEDOUT;
        if (!connected()) {
            if (dials > 0) return -ENOTCONN;
            futex_wait(&dialled_, dials, left);
        } else {
            futex_wait(&ring->state, state, left);
        }
    }
}

void Attacher::stop() {
    if (!started_) return;
    delist();
    stopping_.store(true);
    kick();
    pthread_join(thread_, nullptr);
    started_ = false;
    ::close(kick_fd_);
}

void Attacher::kick() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(kick_fd_, &one, sizeof one);
}

void* Attacher::thread_main(void* self) {
    static_cast<Attacher*>(self)->run();
    return nullptr;
}

void Attacher::run() {
    int backoff_ms = backoff_first_ms;
    while (!stopping_.load()) {
        if (hung_up_) {  // an agent that keeps refusing is not dialled in a circle
            pollfd kicked{kick_fd_, POLLIN, 0};
            ::poll(&kicked, 1, backoff_first_ms);
            hung_up_ = false;
        }
        if (socket_ < 0 && !stopping_.load()) {
            const bool up = dial();
            connected_.store(up ? 1 : 0);
            dialled_.fetch_add(1);
            futex_wake(&dialled_);
            if (up) backoff_ms = backoff_first_ms;
        }
        if (socket_ >= 0 && !offer_new()) hang_up();
        pollfd fds[2] = {{kick_fd_, POLLIN, 0}, {socket_, POLLIN, 0}};
        ::poll(fds, socket_ >= 0 ? 2 : 1, socket_ >= 0 ? -1 : backoff_ms);
        if (socket_ < 0) backoff_ms = backoff_ms * 2 > backoff_max_ms ? backoff_max_ms : backoff_ms * 2;
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = ::read(kick_fd_, &count, sizeof count);
        if (socket_ >= 0 && (fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !hear()) hang_up();
    }
    if (socket_ >= 0) {
        const ring::AttachMessage bye = message(ring::AttachKind::bye, 0);
        ::send(socket_, &bye, sizeof bye, MSG_NOSIGNAL);
        ::close(socket_);
        socket_ = -1;
    }
}

bool Attacher::dial() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_, sizeof path_);
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    const ring::AttachMessage hello = message(ring::AttachKind::hello, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
        ::close(fd);
        return false;
    }
    socket_ = fd;
    return true;
}

void Attacher::hang_up() {
    ::close(socket_);
    socket_ = -1;
    hung_up_ = true;
    connected_.store(0);
    pthread_mutex_lock(&mutex_);
    for (ClientRing* r = rings_; r != nullptr; r = r->next)
        if (r->state.load() != 3 || r->refusal == static_cast<std::uint32_t>(ring::Refusal::draining)) r->state.store(0);
    pthread_mutex_unlock(&mutex_);
}

bool Attacher::offer_new() {
    pthread_mutex_lock(&mutex_);
    bool ok = true;
    for (ClientRing* r = rings_; r != nullptr && ok; r = r->next)
        if (r->state.load() == 0) ok = offer(r);
    pthread_mutex_unlock(&mutex_);
    return ok;
}

bool Attacher::offer(ClientRing* r) {
    ring::AttachMessage m = message(ring::AttachKind::offer, r->cookie);
    iovec part{&m, sizeof m};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr packet{};
    packet.msg_iov = &part;
    packet.msg_iovlen = 1;
    packet.msg_control = control;
    packet.msg_controllen = sizeof control;
    cmsghdr* c = reinterpret_cast<cmsghdr*>(control);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    const int fds[2] = {r->memfd, r->wake_fd};
    std::memcpy(CMSG_DATA(c), fds, sizeof fds);
    r->state.store(1);
    return ::sendmsg(socket_, &packet, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof m);
}

bool Attacher::hear() {
    ring::AttachMessage m{};
    const ssize_t n = ::recv(socket_, &m, sizeof m, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n != static_cast<ssize_t>(sizeof m) || m.magic != ring::attach_magic) return false;
    pthread_mutex_lock(&mutex_);
    bool draining = false;
    for (ClientRing* r = rings_; r != nullptr; r = r->next) {
        if (r->cookie != m.cookie) continue;
        if (m.kind == ring::AttachKind::accept) r->state.store(2);
        if (m.kind == ring::AttachKind::refuse) {
            r->refusal = static_cast<std::uint32_t>(m.code);
            draining = m.code == ring::Refusal::draining;
            std::memcpy(r->text, m.text, sizeof r->text);
            r->text[sizeof r->text - 1] = 0;
            r->state.store(3);
        }
        futex_wake(&r->state);
    }
    pthread_mutex_unlock(&mutex_);
    return !draining;
}

}  // namespace tally::client
