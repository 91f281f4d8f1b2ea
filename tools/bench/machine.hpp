// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What the cases need of this machine: CPU time, memory, ports, folders, and the two daemons as real processes.
// Owns    Daemons stops what it started; TempDir removes what is in it.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/reconcile/report.hpp"

namespace tally::bench {

// Of this process and of its children that were waited for.
double cpu_seconds();
double thread_cpu_seconds();
double cpu_seconds_of(pid_t pid);  // of a running process
std::uint64_t rss_of(pid_t pid);   // anonymous and file pages; shared memory (rings) apart
unsigned cores();

std::uint64_t bytes_under(const std::string& dir);

class TempDir {
public:
    explicit TempDir(const std::string& base);  // a new one in `base`, or under /tmp
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

// Runs `work` in a forked child; its exit code is what `work` returns.
pid_t spawn(const std::function<int()>& work);
int wait_for(pid_t pid);

enum class FarEnd { none, landing, store };

class Daemons {
public:
    Daemons(const std::string& dir, FarEnd far, const std::string& spool_keys = {});
    ~Daemons() { stop(); }
    Daemons(const Daemons&) = delete;
    Daemons& operator=(const Daemons&) = delete;

    bool ok() const { return ok_; }
    std::string why() const;  // it is not
    std::string socket() const { return dir_ + "/agent.sock"; }
    pid_t agent() const { return agent_; }
    pid_t receiver() const { return receiver_; }
    void stop();  // the agent first

private:
    void write(const char* name, const std::string& text) const;
    pid_t start(const char* role, const char* ready);

    std::string dir_;
    pid_t agent_ = 0;
    pid_t receiver_ = 0;
    bool ok_ = true;
};

// "exact", or what is wrong: of a closed run in the spool of a stopped agent, in a landing, or in the store of a running receiver
// (waits until nothing is on its way any more).
std::string verdict_of(const reconcile::Report& report);
std::string prove_spool(const std::string& spool_dir, const std::string& run);
std::string prove_landing(const std::string& dir, const std::string& run);
std::string prove_store(const std::string& dir, const std::string& run);

}  // namespace tally::bench
