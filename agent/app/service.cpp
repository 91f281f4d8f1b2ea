// SPDX-License-Identifier: Apache-2.0
#include "agent/app/service.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <systemd/sd-daemon.h>

#include "agent/base/log.hpp"

namespace tally::app {

namespace {

constexpr const char* ring_prefix = "ring-";

std::string ring_name(const Uuid& ring) { return ring_prefix + ring.text(); }

bool is_memfd(int fd) {
    struct stat st {};
    return ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

void refuse(Fd fd, const std::string& name) {
    log_warn("service.passed", {{"name", name}, {"what", "a descriptor that this daemon does not know was passed; it is closed"}});
    fd.reset();
}

}  // namespace

Passed take_passed() {
    Passed passed;
    char** names = nullptr;
    const int count = ::sd_listen_fds_with_names(1, &names);
    std::map<std::string, PassedRing> rings;
    for (int i = 0; i < count; ++i) {
        Fd fd(SD_LISTEN_FDS_START + i);
        const std::string name = names[i];
        std::free(names[i]);
        if (name.starts_with(ring_prefix)) {
            PassedRing& ring = rings[name];
            (is_memfd(fd.get()) ? ring.ring : ring.wake) = std::move(fd);
        } else if (!passed.attach && ::sd_is_socket(fd.get(), AF_UNIX, SOCK_SEQPACKET, 1) > 0) {
            passed.attach = std::move(fd);
        } else {
            refuse(std::move(fd), name);
        }
    }
    std::free(names);
    for (auto& [name, ring] : rings) {
        if (ring.ring && ring.wake) {
            passed.rings.push_back(std::move(ring));
        } else {
            refuse(std::move(ring.ring ? ring.ring : ring.wake), name);
        }
    }
    return passed;
}

void keep_ring(const Uuid& ring, int ring_fd, int wake_fd) {
    const std::string text = "FDSTORE=1\nFDPOLL=0\nFDNAME=" + ring_name(ring);
    const int fds[2] = {ring_fd, wake_fd};
    ::sd_pid_notify_with_fds(0, 0, text.c_str(), fds, 2);
}

void drop_ring(const Uuid& ring) { ::sd_notify(0, ("FDSTOREREMOVE=1\nFDNAME=" + ring_name(ring)).c_str()); }

void notify_ready(const std::string& status) { ::sd_notify(0, ("READY=1\nSTATUS=" + status).c_str()); }
void notify_status(const std::string& status) { ::sd_notify(0, ("STATUS=" + status).c_str()); }
void notify_reloading() { ::sd_notify(0, "RELOADING=1"); }
void notify_stopping() { ::sd_notify(0, "STOPPING=1"); }

Watchdog::Watchdog() {
    std::uint64_t usec = 0;
    if (::sd_watchdog_enabled(0, &usec) > 0) interval_ns_ = static_cast<std::int64_t>(std::min<std::uint64_t>(usec, INT64_MAX / 1000)) * 1000;
}

void Watchdog::feed(std::int64_t now, std::initializer_list<std::int64_t> beats) {
    if (interval_ns_ == 0 || now - fed_ns_ < interval_ns_ / 4) return;
    for (const std::int64_t beat : beats) {
        if (beat != 0 && now - beat > interval_ns_ / 2) return;
    }
    fed_ns_ = now;
    ::sd_notify(0, "WATCHDOG=1");
}

}  // namespace tally::app
