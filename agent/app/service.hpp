// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What a daemon says to its service manager (sd_notify) and gets from it (passed descriptors). Without one every call does nothing.
// Flow    socket unit, descriptor store -> take_passed() -> the ring role; the ring role -> keep_ring / drop_ring
// Threads Any; take_passed() once, before other threads.
// Format  Rings are kept in pairs, memfd and eventfd, both named `ring-UUID`.

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "agent/base/fd.hpp"
#include "agent/base/types.hpp"

namespace tally::app {

struct PassedRing {
    Fd ring;
    Fd wake;
};
struct Passed {
    Fd attach;  // a listening attach socket, where a socket unit made one
    std::vector<PassedRing> rings;
};
// What does not fit is closed and named in the log.
Passed take_passed();

// A ring stays readable when this process dies and its trainer is gone too.
void keep_ring(const Uuid& ring, int ring_fd, int wake_fd);
void drop_ring(const Uuid& ring);

void notify_ready(const std::string& status);
void notify_status(const std::string& status);
void notify_reloading();
void notify_stopping();

// When a thread that must go round went round last. Relaxed: it is looked at seconds later.
class Beat {
public:
    void operator()(std::int64_t now_monotonic_ns) { last_ns_.store(now_monotonic_ns, std::memory_order_relaxed); }
    std::int64_t last_ns() const { return last_ns_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::int64_t> last_ns_{0};
};

// Feeds the watchdog only while every thread of the data path goes round: one that hangs ends in a restart, not in silence.
class Watchdog {
public:
    Watchdog();
    // Call at least twice per second. `beats_ns`: Beat::last_ns of each thread; 0 = not begun.
    void feed(std::int64_t now_monotonic_ns, std::initializer_list<std::int64_t> beats_ns);

private:
    std::int64_t interval_ns_ = 0;  // 0: nobody watches
    std::int64_t fed_ns_ = 0;
};

}  // namespace tally::app
