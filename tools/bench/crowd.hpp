// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Many producer processes that start together: trials, idle.
// Owns    The shared page they meet on; children that outlive their parent are killed.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct tally_run;

namespace tally::bench {

class Crowd {
public:
    static constexpr std::uint32_t size_max = 16'384;

    Crowd();
    ~Crowd();
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    // In a child: ready, then waits until the parent lets go. False: the parent gave up.
    struct Member {
        Crowd& crowd;
        std::uint32_t index;
        void ready_and_wait() const;
        void finished(std::int64_t ns) const;  // how long its loop took
    };
    void start(std::uint32_t index, const std::function<int(const Member&)>& work);
    void wait_ready();  // all that were started
    void go();
    // Waits for all; false if one of them failed.
    bool join();
    std::int64_t longest_ns() const;
    double mean_ns() const;

private:
    struct Page {
        std::atomic<std::uint32_t> ready;
        std::atomic<std::uint32_t> go;
        std::int64_t took_ns[size_max];
    };
    Page* page_ = nullptr;
    std::vector<pid_t> pids_;
    std::uint32_t started_ = 0;
};

// A run as one producer of `producers`; nullptr when it cannot be opened (the reason is on stderr).
tally_run* open_run(const std::string& socket, const std::string& run, std::uint32_t index, std::uint32_t producers);

}  // namespace tally::bench
