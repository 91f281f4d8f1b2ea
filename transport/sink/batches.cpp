// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/batches.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "agent/base/hash.hpp"
#include "agent/base/log.hpp"

namespace tally::sink {

namespace {

constexpr std::uint32_t magic = 0x48435442;  // "BTCH"
constexpr std::size_t log_bytes_max = 256U << 20;
constexpr std::uint8_t kind_plan = 1;
constexpr std::uint8_t kind_done = 2;
constexpr std::uint8_t kind_settled = 3;

Bytes record(std::uint8_t kind, const BatchPlan& plan) {
    Bytes body;
    ByteWriter b(body);
    b.put(kind);
    b.put(plan.batch);
    b.put(plan.counter);
    b.put(raw(plan.start));
    plan.seqs.write(b);
    Bytes out;
    ByteWriter w(out);
    w.put(magic);
    w.put(static_cast<std::uint32_t>(body.size()));
    w.put(xxh3(body));
    w.bytes(body);
    return out;
}

}  // namespace

Result<Batches> Batches::open(const std::string& landing_dir, const Uuid& landing) {
    const std::string dir = landing_dir + "/batches";
    TALLY_TRY(make_dirs(dir));
    Batches out;
    out.landing_ = landing;
    const std::string path = dir + "/log";
    TALLY_TRY(out.load(path));
    TALLY_TRY(out.compact(path));
    out.file_.reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
    if (!out.file_) return fail_errno("batches log");
    return out;
}

Status Batches::load(const std::string& path) {
    auto content = read_file(path, log_bytes_max);
    if (!content) {
        if (content.error().code == Code::not_found) return {};
        return std::unexpected(content.error());
    }
    ByteReader in(*content);
    while (in.left() > 0) {
        const auto m = in.get<std::uint32_t>();
        const auto bytes = in.get<std::uint32_t>();
        const auto hash = in.get<std::uint64_t>();
        const ByteView body = in.bytes(bytes);
        if (!in.ok() || m != magic || xxh3(body) != hash) {
            log_warn("sink.batches_torn", {{"offset", in.at()}});
            break;
        }
        ByteReader b(body);
        const auto kind = b.get<std::uint8_t>();
        BatchPlan plan;
        plan.batch = b.get<std::uint64_t>();
        plan.counter = b.get<std::uint64_t>();
        plan.start = StartId{b.get<std::uint64_t>()};
        auto seqs = IntervalSet::read(b);
        if (!seqs) return std::unexpected(seqs.error());
        plan.seqs = std::move(*seqs);
        counter_ = std::max(counter_, plan.counter);
        if (kind == kind_plan) open_plans_.push_back(std::move(plan));
        if (kind == kind_done || kind == kind_settled) {
            std::erase_if(open_plans_, [&](const BatchPlan& p) { return p.batch == plan.batch; });
            done_[plan.start].insert(plan.seqs);
        }
    }
    return {};
}

// One record per landing start for all that is done, then the open plans.
Status Batches::compact(const std::string& path) {
    Bytes out;
    for (const auto& [start, seqs] : done_) {
        const Bytes one = record(kind_settled, {0, counter_, start, seqs});
        out.insert(out.end(), one.begin(), one.end());
    }
    for (const BatchPlan& plan : open_plans_) {
        const Bytes one = record(kind_plan, plan);
        out.insert(out.end(), one.begin(), one.end());
    }
    return write_file_atomic(path, out);
}

bool Batches::is_done(StartId start, Seq seq) const {
    const auto it = done_.find(start);
    return it != done_.end() && it->second.contains(raw(seq));
}

Result<BatchPlan> Batches::plan(StartId start, const IntervalSet& seqs) {
    BatchPlan plan;
    plan.counter = counter_ + 1;
    Bytes key;
    ByteWriter w(key);
    w.put(landing_);
    w.put(plan.counter);
    plan.batch = xxh3(key);
    plan.start = start;
    plan.seqs = seqs;
    TALLY_TRY(append(kind_plan, plan));
    counter_ = plan.counter;
    return plan;
}

Status Batches::done(const BatchPlan& plan) {
    TALLY_TRY(append(kind_done, plan));
    std::erase_if(open_plans_, [&](const BatchPlan& p) { return p.batch == plan.batch; });
    done_[plan.start].insert(plan.seqs);
    return {};
}

Status Batches::append(std::uint8_t kind, const BatchPlan& plan) {
    const Bytes bytes = record(kind, plan);
    const off_t before = ::lseek(file_.get(), 0, SEEK_END);
    auto written = write_all(file_.get(), bytes);
    // A record cut short would hide those after it; the tail is taken back before anything else is said.
    if (!written) {
        if (::ftruncate(file_.get(), before) != 0) log_error("sink.batches_truncate", {{"offset", before}});
        return written;
    }
    if (::fdatasync(file_.get()) != 0) return fail_errno("batches fsync");
    return {};
}

}  // namespace tally::sink
