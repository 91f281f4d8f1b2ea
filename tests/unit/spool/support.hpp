// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Helpers of the spool's tests: folders, groups whose payload can be recomputed from its identity, engines
//         that fail or hold back.

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"
#include "spool/scan.hpp"
#include "spool/seams.hpp"

namespace tally::spool::test {

namespace fs = std::filesystem;

class TempDir {
public:
    TempDir() {
        // Memory where there is some: the tests are about bytes, not about disks. It is not O_DIRECT everywhere.
        const char* base = fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
        std::string text = std::string(base) + "/tally-spool-XXXXXX";
        REQUIRE(::mkdtemp(text.data()) != nullptr);
        path_ = text;
        log_setup(LogLevel::error, false);
    }
    ~TempDir() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    std::string path(const std::string& name = "s") const { return path_ + "/" + name; }

private:
    std::string path_;
};

inline Options small_options(const std::string& dir) {
    Options options;
    options.dir = dir;
    options.segment_bytes_min = 32U << 10;
    options.segment_bytes_max = 128U << 10;
    options.budget_bytes = 16U << 20;
    options.reserve_free_bytes = 0;
    options.cache_bytes = 64U << 10;
    return options;
}

// Every payload is a function of its identity, so any record met can be checked.
inline Bytes payload_bytes_of(std::uint64_t start, Lane lane, std::uint64_t seq, std::size_t bytes) {
    Bytes out(bytes);
    std::mt19937_64 rng(start * 31 + seq * 7 + static_cast<std::uint64_t>(lane));
    for (std::size_t i = 0; i < bytes; i += 8) {
        const std::uint64_t v = rng();
        std::copy_n(reinterpret_cast<const std::uint8_t*>(&v), std::min<std::size_t>(8, bytes - i),
                    out.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return out;
}
inline bool payload_right(const ParcelId& id, const Payload& payload) {
    return *payload == payload_bytes_of(raw(id.start), id.lane, raw(id.seq), payload->size());
}

inline Bytes text_bytes(std::string_view s) {
    return Bytes(s.begin(), s.end());
}

struct Shape {
    std::vector<std::size_t> live{100};
    std::vector<std::size_t> bulk{};
    std::vector<std::size_t> file{};
    std::vector<CursorUpdate> cursors{};
    bool reserve = false;
};
inline Group make_group(const Spool& spool, const Shape& shape) {
    const Plan plan = spool.plan();
    Group group;
    group.number = plan.group;
    group.reserve = shape.reserve;
    group.cursors = shape.cursors;
    const std::vector<std::size_t>* lists[] = {&shape.live, &shape.bulk, &shape.file};
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
        std::uint64_t seq = raw(plan.next[lane]);
        for (const std::size_t bytes : *lists[lane]) {
            const Lane which = static_cast<Lane>(lane);
            group.records.push_back(
                {which, Seq{seq},
                 std::make_shared<const Bytes>(payload_bytes_of(raw(spool.start()), which, seq, bytes))});
            ++seq;
        }
    }
    return group;
}
inline void append_one(Spool& spool, const Shape& shape) {
    for (int tries = 0; tries < 100; ++tries) {
        const auto appended = spool.append(make_group(spool, shape));
        REQUIRE_MESSAGE(appended.has_value(), appended.error().text());
        if (*appended == Append::ok) return;
        REQUIRE(spool.drain().has_value());
    }
    FAIL("no room for a group");
}
inline std::vector<Fetched> fetch_all(Spool& spool, Lane lane, std::uint64_t step = 64U << 10) {
    std::vector<Fetched> out;
    for (;;) {
        auto got = spool.fetch(lane, step);
        REQUIRE(got.has_value());
        if (got->empty()) return out;
        for (Fetched& one : *got) {
            CHECK(payload_right(one.id, one.payload));
            out.push_back(std::move(one));
        }
    }
}
inline std::vector<std::uint64_t> seqs_of(const std::vector<Fetched>& records) {
    std::vector<std::uint64_t> out;
    for (const Fetched& one : records) out.push_back(raw(one.id.seq));
    return out;
}
inline IntervalSet range(std::uint64_t first, std::uint64_t last) {
    IntervalSet out;
    out.insert(first, last);
    return out;
}
inline std::unique_ptr<Spool> must_open(const Options& options, const Seams& seams = real_seams()) {
    auto spool = open_with(options, seams);
    REQUIRE_MESSAGE(spool.has_value(), spool.error().text());
    return std::move(*spool);
}
inline std::uint64_t dir_bytes(const std::string& dir) {
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(dir)) {
        if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
}
inline Bytes slurp(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}
inline void spit(const std::string& path, const Bytes& bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}
inline std::vector<std::string> files_in(const std::string& dir) {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(dir)) out.push_back(entry.path().string());
    std::sort(out.begin(), out.end());
    return out;
}

// What a fault engine does with the k-th write it is given.
struct Fault {
    std::uint64_t at = 0;  // counted from 1; 0: never
    int error = 0;         // errno, or
    std::uint32_t short_by = 0;
    std::uint64_t count = 1;
};
class FaultEngine final : public WriteEngine {
public:
    FaultEngine(std::unique_ptr<WriteEngine> inner, std::vector<Fault> faults)
        : inner_(std::move(inner)), faults_(std::move(faults)) {}
    const char* name() const override { return inner_->name(); }
    void submit(const WriteOp& op) override {
        ++writes_;
        for (const Fault& fault : faults_) {
            if (fault.at == 0 || writes_ < fault.at || writes_ >= fault.at + fault.count) continue;
            if (fault.error != 0) {
                made_.push_back({op.slot, -fault.error});
                return;
            }
            if (op.bytes <= fault.short_by) continue;
            WriteOp shorter = op;
            shorter.bytes -= fault.short_by;
            inner_->submit(shorter);  // its completion is short by itself
            return;
        }
        inner_->submit(op);
    }
    void flush() override { inner_->flush(); }
    void reap(std::vector<WriteDone>& out, bool wait) override {
        inner_->reap(out, wait && made_.empty());
        out.insert(out.end(), made_.begin(), made_.end());
        made_.clear();
    }

private:
    std::unique_ptr<WriteEngine> inner_;
    std::vector<Fault> faults_;
    std::vector<WriteDone> made_;
    std::uint64_t writes_ = 0;
};
// Same seed, same ids and salts.
inline Seams seeded_seams(std::mt19937_64& rng) {
    Seams seams = real_seams();
    seams.random = [&rng] { return rng(); };
    return seams;
}
inline Seams faulty(std::vector<Fault> faults, Seams seams = real_seams()) {
    seams.wrap_engine = [faults](std::unique_ptr<WriteEngine> inner) {
        return std::make_unique<FaultEngine>(std::move(inner), faults);
    };
    return seams;
}

}  // namespace tally::spool::test
