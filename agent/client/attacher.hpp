// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The client's helper thread: dials the agent's socket, offers rings, offers them again when an agent is back.
// Flow    client adds rings; the thread sends hello and offers, notes accept and refuse.
// Format  agent/ring/LAYOUT.md, "Attach".
// Threads One helper thread per run handle and process, signals blocked, 256 KiB stack. add, wait_answer, stop: any.
// Owns    The socket. Rings are borrowed until stop().
//
// libc only, no libstdc++.

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "agent/ring/producer.hpp"

namespace tally::client {

// A ring of this process, from creation to the end of the run.
struct ClientRing {
    ClientRing* next = nullptr;  // in the attacher's list
    int memfd = -1;
    int wake_fd = -1;
    ring::Pages pages;
    ring::Producer producer;
    std::uint64_t cookie = 0;
    std::uint32_t block = 0;  // 0: scalars
    std::atomic<std::uint32_t> state{0};  // futex: 0 not offered, 1 offered, 2 accepted, 3 refused
    std::uint32_t refusal = 0;
    char text[232] = {};
    std::int64_t woke_ns = 0;
    bool no_space = false;  // waited in vain: drop without waiting until space has been seen again

    void wake() const;
};

class Attacher {
public:
    int start(const char* socket_path);
    void add(ClientRing* ring);
    // Waits until the ring was answered; 0 accepted, 1 refused, -ENOTCONN no agent there, -ETIMEDOUT.
    int wait_answer(const ClientRing* ring, std::int64_t timeout_ns);
    void stop();  // says bye, joins
    bool connected() const { return connected_.load() != 0; }
    // In a forked child: closes what the parent's attachers hold (sockets, memfds, eventfds). Only close(2) is called.
    static void close_inherited();

private:
    static void* thread_main(void* self);
    void run();
    bool dial();
    bool offer(ClientRing* ring);
    bool offer_new();
    bool hear();
    void hang_up();
    void kick() const;
    void enlist();
    void delist();

    static pthread_mutex_t all_mutex_;
    static Attacher* all_;
    Attacher* next_attacher_ = nullptr;
    char path_[108] = {};
    pthread_t thread_{};
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    ClientRing* rings_ = nullptr;
    std::uint64_t next_cookie_ = 1;
    int socket_ = -1;
    int kick_fd_ = -1;
    bool started_ = false;
    bool hung_up_ = false;
    std::atomic<std::uint32_t> connected_{0};
    std::atomic<std::uint32_t> dialled_{0};  // futex: bumped after each attempt
    std::atomic<bool> stopping_{false};
};

std::int64_t clock_ns(int clock);
// Waits while *word == value, at most timeout_ns.
void futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t value, std::int64_t timeout_ns);
void futex_wake(std::atomic<std::uint32_t>* word);

}  // namespace tally::client
