// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Bounded single-producer single-consumer queue of movable values, between two roles' threads.
// Threads One thread pushes, one pops; size() is a hint from either. Stopping and waking is the runner's business.

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "agent/base/result.hpp"

namespace tally {

template <class T>
class SpscQueue {
public:
    // Rounds up to a power of two.
    explicit SpscQueue(std::size_t capacity_min) {
        std::size_t n = 2;
        while (n < capacity_min) n *= 2;
        slots_.resize(n);
    }

    // False when full; `value` is untouched then.
    bool push(T&& value) {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        if (head - tail_seen_ == slots_.size()) {
            tail_seen_ = tail_.load(std::memory_order_acquire);
            if (head - tail_seen_ == slots_.size()) return false;
        }
        slots_[head & (slots_.size() - 1)] = std::move(value);
        head_.store(head + 1, std::memory_order_release);  // pairs with pop's acquire
        return true;
    }
    std::optional<T> pop() {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        if (tail == head_seen_) {
            head_seen_ = head_.load(std::memory_order_acquire);
            if (tail == head_seen_) return std::nullopt;
        }
        std::optional<T> out(std::move(slots_[tail & (slots_.size() - 1)]));
        tail_.store(tail + 1, std::memory_order_release);  // pairs with push's acquire
        return out;
    }
    std::size_t size() const {
        return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
    }
    std::size_t capacity() const { return slots_.size(); }

private:
    std::vector<T> slots_;
    alignas(128) std::atomic<std::size_t> head_{0};
    std::size_t tail_seen_ = 0;  // producer's private copy
    alignas(128) std::atomic<std::size_t> tail_{0};
    std::size_t head_seen_ = 0;  // consumer's private copy
};

}  // namespace tally
