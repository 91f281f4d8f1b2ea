// SPDX-License-Identifier: Apache-2.0
// Case spool: durable append of sealed records; against raw durable overwrites of a prewritten file, same size and number in flight.
#include "tools/bench/spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "agent/base/clock.hpp"
#include "agent/base/fd.hpp"
#include "agent/base/hash.hpp"
#include "spool/aligned.hpp"
#include "spool/engine.hpp"
#include "spool/scan.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/machine.hpp"

namespace tally::bench {

namespace {

constexpr std::uint32_t in_flight = 4;

Bytes noise(std::size_t bytes, std::uint64_t seed) {
    Bytes out(bytes);
    for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const std::uint64_t v = seed ^ (seed >> 29);
        std::copy_n(reinterpret_cast<const std::uint8_t*>(&v), 8, out.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return out;
}

struct Appended {
    std::uint64_t bytes = 0;
    std::uint64_t records = 0;
    std::uint64_t hashes = 0;  // sum of the XXH3 of every payload
    double seconds = 0;
    double cpu_s = 0;
    std::string error;
};

Appended append(const std::string& dir, std::size_t record_bytes, std::uint64_t total) {
    Appended out;
    spool::Options options;
    options.dir = dir;
    options.cache_bytes = 0;
    options.groups_in_flight_max = in_flight;
    auto opened = spool::Spool::open(options);
    if (!opened) return {0, 0, 0, 0, 0, opened.error().text()};
    spool::Spool& s = **opened;
    std::vector<spool::Payload> payloads;
    std::vector<std::uint64_t> hashes;
    for (std::uint64_t i = 0; i < 8; ++i) {
        payloads.push_back(std::make_shared<const Bytes>(noise(record_bytes, i + 1)));
        hashes.push_back(xxh3(*payloads.back()));
    }
    const std::int64_t began = monotonic_ns();
    const double cpu = cpu_seconds();
    while (out.bytes < total) {
        const spool::Plan plan = s.plan();
        const std::size_t which = out.records % payloads.size();
        spool::Group group;
        group.number = plan.group;
        group.records.push_back({Lane::live, plan.next[0], payloads[which]});
        const auto done = s.append(group);
        if (!done) return {0, 0, 0, 0, 0, done.error().text()};
        if (*done == spool::Append::ok) {
            out.bytes += record_bytes;
            out.records += 1;
            out.hashes += hashes[which];
        }
        const auto moved = s.poll(monotonic_ns());
        if (!moved) return {0, 0, 0, 0, 0, moved.error().text()};
        if (*done == spool::Append::full && !*moved) ::usleep(20);
    }
    if (const auto drained = s.drain(); !drained) out.error = drained.error().text();
    out.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
    out.cpu_s = cpu_seconds() - cpu;
    return out;
}

std::string found(const std::string& dir, const Appended& wanted) {
    std::uint64_t records = 0;
    std::uint64_t hashes = 0;
    const auto scanned = spool::scan(dir, [&](const spool::ScannedRecord& r) {
        if (r.committed && r.payload) {
            ++records;
            hashes += xxh3(*r.payload);
        }
        return true;
    });
    if (!scanned) return scanned.error().text();
    return records == wanted.records && hashes == wanted.hashes ? "exact" : "records are missing or altered";
}

// Bytes/s of the disk itself, through the same engine.
double raw_overwrite(const std::string& file, std::uint32_t frame, std::uint64_t total) {
    const std::uint64_t file_bytes = 64ULL << 20;
    const auto buffer = spool::allocate_aligned(std::uint64_t{frame} * in_flight);
    const Bytes content = noise(std::size_t{frame} * in_flight, 7);
    std::copy(content.begin(), content.end(), buffer.get());
    const Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
    auto chosen = spool::choose_engine(spool::Engine::automatic, {buffer.get(), in_flight, frame});
    if (fd.get() < 0 || !chosen) return 0;
    spool::WriteEngine& engine = *chosen->engine;
    std::vector<spool::WriteDone> done;
    std::int64_t began = 0;
    std::uint64_t written = 0;
    std::uint32_t flying = 0;
    bool bad = false;
    const auto pass = [&](std::uint64_t until) {
        std::vector<std::uint32_t> free;
        for (std::uint32_t i = 0; i < in_flight; ++i) free.push_back(i);
        while (written < until || flying > 0) {
            while (written < until && !free.empty()) {
                const std::uint32_t slot = free.back();
                free.pop_back();
                engine.submit({fd.get(), buffer.get() + std::size_t{slot} * frame, frame, written % file_bytes, slot});
                written += frame;
                ++flying;
            }
            engine.flush();
            done.clear();
            engine.reap(done, true);
            for (const spool::WriteDone& d : done) {
                bad |= d.result != static_cast<std::int32_t>(frame);
                free.push_back(d.slot);
                --flying;
            }
        }
    };
    pass(file_bytes);  // written once: what follows overwrites
    written = 0;
    began = monotonic_ns();
    pass(total);
    return bad ? 0 : static_cast<double>(total) * 1e9 / static_cast<double>(monotonic_ns() - began);
}

}  // namespace

double spool_cost(const std::string& dir, bool quick) {
    std::filesystem::create_directories(dir);
    const Appended done = append(dir + "/spool", 512U << 10, quick ? 4ULL << 20 : 256ULL << 20);
    std::error_code ec;
    std::filesystem::remove_all(dir, ec);
    return done.bytes == 0 ? 0 : done.cpu_s / static_cast<double>(done.bytes);
}

Lines spool(const Setting& s) {
    std::vector<Line> lines;
    for (const std::uint32_t kib : {64U, 256U, 1024U}) {
        const std::uint64_t total = s.quick ? 8ULL << 20 : s.full ? 8ULL << 30 : static_cast<std::uint64_t>(s.seconds * 256) << 20;
        const std::string dir = s.dir + "/spool-" + std::to_string(kib);
        Line line;
        line.shape = std::to_string(kib) + " KiB";
        line.limit_name = "raw durable overwrite of a written file (bytes)";
        line.limit_per_s = raw_overwrite(s.dir + "/raw", kib << 10, total);
        if (line.limit_per_s == 0) return failed("raw writes failed");
        const Appended done = append(dir, kib << 10, total);
        if (!done.error.empty()) return failed(done.error);
        line.points = static_cast<double>(done.bytes);
        line.seconds = done.seconds;
        line.cpu_s = done.cpu_s;
        line.more = {{"records", static_cast<double>(done.records)}};
        line.verdict = found(dir, done);
        std::error_code ec;
        std::filesystem::remove_all(dir, ec);
        lines.push_back(line);
    }
    return lines;
}

}  // namespace tally::bench
