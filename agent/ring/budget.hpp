// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Counts the bytes of all mapped rings, per user and in total, and says no when one more would be too many.
// Flow    AttachServer asks; the Charge travels with the ring and gives its bytes back when the ring is dropped.
// Threads Any: charges are given back by whichever role drops the ring.
// Invariants
//   I1  A file is charged once however often it is offered: the kernel's (device, inode) is its identity.

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "agent/ring/mapping.hpp"

namespace tally::ring {

class Budget;

// Gives the bytes back when destroyed. Movable.
class Charge {
public:
    Charge() = default;
    Charge(std::shared_ptr<Budget> budget, FileKey key) : budget_(std::move(budget)), key_(key) {}
    Charge(Charge&&) noexcept = default;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge();

private:
    std::shared_ptr<Budget> budget_;
    FileKey key_;
};

class Budget : public std::enable_shared_from_this<Budget> {
public:
    struct Limits {
        std::uint64_t user_bytes_max = 0;   // 0 = total_bytes_max
        std::uint64_t total_bytes_max = 0;  // 0 = 1/8 of the machine's memory
    };
    static std::shared_ptr<Budget> make(Limits limits);

    // The sentence names the key of the budget that is used up.
    std::expected<Charge, Refused> charge(FileKey key, std::uint32_t uid, std::uint64_t bytes);
    std::uint64_t used() const;
    std::uint64_t used_by(std::uint32_t uid) const;
    const Limits& limits() const { return limits_; }

private:
    friend class Charge;
    explicit Budget(Limits limits) : limits_(limits) {}
    void give_back(FileKey key);

    struct Entry {
        std::uint32_t uid = 0;
        std::uint64_t bytes = 0;
        std::uint32_t holders = 0;
    };
    const Limits limits_;
    mutable std::mutex mutex_;  // attach and detach only, never on the data path
    std::map<FileKey, Entry> entries_;
    std::map<std::uint32_t, std::uint64_t> users_;
    std::uint64_t total_ = 0;
};

}  // namespace tally::ring
