// SPDX-License-Identifier: Apache-2.0
// Case start: an agent opening a backlog. The segments are real, written through the spool; their payloads are zeros that are then given
// back to the file system, so the backlog takes its length and not its size.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "agent/base/clock.hpp"
#include "agent/base/fd.hpp"
#include "spool/spool.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/machine.hpp"

namespace tally::bench {

namespace {

constexpr std::uint64_t record_bytes = 8ULL << 20;

// Frees every page of zeros; the content stays the same.
void dig(const std::filesystem::path& file) {
    const Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    if (fd.get() < 0) return;
    std::vector<std::uint8_t> buffer(1U << 20);
    static const std::vector<std::uint8_t> zeros(64U << 10);
    for (off_t at = 0;; at += static_cast<off_t>(buffer.size())) {
        const ssize_t n = ::pread(fd.get(), buffer.data(), buffer.size(), at);
        if (n <= 0) return;
        for (ssize_t k = 0; k + static_cast<ssize_t>(zeros.size()) <= n; k += static_cast<ssize_t>(zeros.size()))
            if (std::equal(zeros.begin(), zeros.end(), buffer.begin() + k))
                ::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at + k, static_cast<off_t>(zeros.size()));
        if (n < static_cast<ssize_t>(buffer.size())) return;
    }
}

void dig_all(const std::string& dir, std::vector<std::string>& done) {
    std::error_code ec;
    std::vector<std::filesystem::path> files;
    for (const auto& e : std::filesystem::recursive_directory_iterator(dir, ec))
        if (e.is_regular_file(ec)) files.push_back(e.path());
    for (const auto& f : files) {
        if (std::find(done.begin(), done.end(), f.string()) != done.end()) continue;
        dig(f);
        done.push_back(f.string());
    }
}

std::string fill(const std::string& dir, std::uint64_t total) {
    spool::Options options;
    options.dir = dir;
    options.budget_bytes = 1ULL << 40;
    options.cache_bytes = 0;
    const auto payload = std::make_shared<const Bytes>(record_bytes);
    std::vector<std::string> dug;
    // One life per 2 GiB: what is closed is dug out before the next is written, so the disk never holds the backlog's length.
    for (std::uint64_t written = 0; written < total;) {
        auto opened = spool::Spool::open(options);
        if (!opened) return opened.error().text();
        for (std::uint64_t part = 0; part < (2ULL << 30) && written < total;) {
            const spool::Plan plan = (*opened)->plan();
            spool::Group group;
            group.number = plan.group;
            group.records.push_back({Lane::live, plan.next[0], payload});
            const auto done = (*opened)->append(group);
            if (!done) return done.error().text();
            if (*done == spool::Append::ok) {
                part += record_bytes;
                written += record_bytes;
            } else {
                ::usleep(20);
            }
            if (const auto moved = (*opened)->poll(monotonic_ns()); !moved) return moved.error().text();
        }
        if (const auto drained = (*opened)->drain(); !drained) return drained.error().text();
        opened->reset();
        dig_all(dir, dug);
    }
    return {};
}

}  // namespace

Lines start(const Setting& s) {
    const std::uint64_t total = s.quick ? 64ULL << 20 : s.full ? 100ULL << 30 : 16ULL << 30;
    if (const std::string error = fill(s.dir + "/spool", total); !error.empty()) return failed(error);
    Line line;
    line.limit_name = "goal: ready in 1 s";
    line.limit_per_s = 1;
    const std::int64_t began = monotonic_ns();
    Daemons daemons(s.dir, FarEnd::none, "budget = \"1TiB\"\n");
    if (!daemons.ok()) return failed(daemons.why());
    line.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
    line.points = 1;
    line.ratio_to_limit = line.seconds;
    line.smaller_is_better = true;
    line.more = {{"ready_s", line.seconds}, {"rss_bytes", static_cast<double>(rss_of(daemons.agent()))}, {"backlog_bytes", static_cast<double>(bytes_under(s.dir + "/spool"))}};
    line.cpu_s = cpu_seconds_of(daemons.agent());
    return std::vector{line};
}

}  // namespace tally::bench
