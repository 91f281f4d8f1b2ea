// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/crowd.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "agent/base/result.hpp"
#include "agent/client/tallyman.h"
#include "tools/bench/machine.hpp"

namespace tally::bench {

Crowd::Crowd() {
    void* at = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TALLY_ASSERT(at != MAP_FAILED);
    page_ = static_cast<Page*>(at);
}

Crowd::~Crowd() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) wait_for(pid);
    ::munmap(page_, sizeof(Page));
}

void Crowd::Member::ready_and_wait() const {
    crowd.page_->ready.fetch_add(1);
    while (crowd.page_->go.load() == 0) ::usleep(2000);
}

void Crowd::Member::finished(std::int64_t ns) const { crowd.page_->took_ns[index] = ns; }

void Crowd::start(std::uint32_t index, const std::function<int(const Member&)>& work) {
    TALLY_ASSERT(index < size_max);
    const pid_t pid = spawn([&] {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        return work(Member{*this, index});
    });
    if (pid > 0) pids_.push_back(pid);
    ++started_;
}

void Crowd::wait_ready() {
    for (int i = 0; page_->ready.load() < started_ && i < 60'000; ++i) ::usleep(1000);
}

void Crowd::go() { page_->go.store(1); }

bool Crowd::join() {
    bool ok = pids_.size() == started_;
    for (const pid_t pid : pids_) ok &= wait_for(pid) == 0;
    pids_.clear();
    return ok;
}

std::int64_t Crowd::longest_ns() const { return *std::max_element(page_->took_ns, page_->took_ns + std::max(1U, started_)); }

double Crowd::mean_ns() const {
    double sum = 0;
    for (std::uint32_t i = 0; i < started_; ++i) sum += static_cast<double>(page_->took_ns[i]);
    return sum / std::max(1U, started_);
}

tally_run* open_run(const std::string& socket, const std::string& run, std::uint32_t index, std::uint32_t producers) {
    tally_run_options o = TALLY_RUN_OPTIONS_INIT;
    const std::string role = std::to_string(index);
    o.socket = socket.c_str();
    o.project = "bench";
    o.run_id = run.c_str();
    o.role = role.c_str();
    o.producers = producers;
    o.block_timeout_ns = 60'000'000'000;
    o.attach_timeout_ns = 60'000'000'000;
    o.close_timeout_ns = 60'000'000'000;
    tally_run* out = nullptr;
    if (tally_run_open(&o, &out) == 0) return out;
    std::fprintf(stderr, "tallyman bench: %s\n", tally_last_error(nullptr));
    return nullptr;
}

}  // namespace tally::bench
