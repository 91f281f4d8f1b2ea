// SPDX-License-Identifier: Apache-2.0
#include "agent/ring/budget.hpp"

#include <unistd.h>

#include "agent/base/units.hpp"

namespace tally::ring {

namespace {

std::uint64_t eighth_of_memory() {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) / 8 : 1ULL << 30;
}

std::string over(const char* key, std::uint64_t limit, std::uint64_t used, std::uint64_t wanted, const std::string& whose) {
    return std::string("[ring] ") + key + " = " + format_bytes(limit) + " is used up: rings of " + whose + " take " +
           format_bytes(used) + ", this one needs " + format_bytes(wanted) + "; raise it or log with fewer rings";
}

}  // namespace

Charge& Charge::operator=(Charge&& other) noexcept {
    if (this != &other) {
        if (budget_) budget_->give_back(key_);
        budget_ = std::move(other.budget_);
        key_ = other.key_;
    }
    return *this;
}

Charge::~Charge() {
    if (budget_) budget_->give_back(key_);
}

std::shared_ptr<Budget> Budget::make(Limits limits) {
    if (limits.total_bytes_max == 0) limits.total_bytes_max = eighth_of_memory();
    if (limits.user_bytes_max == 0) limits.user_bytes_max = limits.total_bytes_max;
    return std::shared_ptr<Budget>(new Budget(limits));
}

std::expected<Charge, Refused> Budget::charge(FileKey key, std::uint32_t uid, std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = entries_.find(key); found != entries_.end()) {
        ++found->second.holders;
        return Charge(shared_from_this(), key);
    }
    const auto user = users_.find(uid);
    const std::uint64_t used = user == users_.end() ? 0 : user->second;
    if (bytes > limits_.user_bytes_max || used > limits_.user_bytes_max - bytes)
        return std::unexpected(Refused{Refusal::user_budget, over("user_bytes_max", limits_.user_bytes_max, used, bytes,
                                                                  "user " + std::to_string(uid))});
    if (bytes > limits_.total_bytes_max || total_ > limits_.total_bytes_max - bytes)
        return std::unexpected(
            Refused{Refusal::total_budget, over("total_bytes_max", limits_.total_bytes_max, total_, bytes, "all users")});
    entries_[key] = {uid, bytes, 1};
    users_[uid] = used + bytes;
    total_ += bytes;
    return Charge(shared_from_this(), key);
}

void Budget::give_back(FileKey key) {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(key);
    TALLY_ASSERT(found != entries_.end());
    Entry& entry = found->second;
    if (--entry.holders != 0) return;
    total_ -= entry.bytes;
    const auto user = users_.find(entry.uid);
    user->second -= entry.bytes;
    if (user->second == 0) users_.erase(user);
    entries_.erase(found);
}

std::uint64_t Budget::used() const {
    const std::scoped_lock lock(mutex_);
    return total_;
}

std::uint64_t Budget::used_by(std::uint32_t uid) const {
    const std::scoped_lock lock(mutex_);
    const auto user = users_.find(uid);
    return user == users_.end() ? 0 : user->second;
}

}  // namespace tally::ring
