// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/batches.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "agent/base/clock.hpp"
#include "agent/base/hash.hpp"
#include "agent/base/log.hpp"

namespace tally::sink {

namespace {

constexpr std::uint32_t record_magic = 0x48435442;  // "BTCH"
constexpr std::size_t head_bytes = 16;
constexpr std::size_t file_bytes_limit = 256U << 20;
constexpr std::uint8_t kind_snapshot = 1;
constexpr std::uint8_t kind_plan = 2;
constexpr std::uint8_t kind_done = 3;

void put_sets(ByteWriter& out, const LandingSets& sets) {
    out.put(static_cast<std::uint32_t>(sets.size()));
    for (const auto& [start, set] : sets) {
        out.put(raw(start));
        set.write(out);
    }
}

bool get_sets(ByteReader& in, LandingSets& out) {
    const auto n = in.get<std::uint32_t>();
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) {
        const StartId start{in.get<std::uint64_t>()};
        auto set = IntervalSet::read(in);
        if (!set) return false;
        out[start].insert(*set);
    }
    return in.ok();
}

Bytes record_of(std::uint8_t kind, const Bytes& body) {
    Bytes checked{kind};
    checked.insert(checked.end(), body.begin(), body.end());
    Bytes out;
    ByteWriter w(out);
    w.put(record_magic);
    w.put(static_cast<std::uint32_t>(body.size()));
    w.put(xxh3(ByteView(checked)));
    w.bytes(checked);
    return out;
}

Bytes plan_body(std::uint64_t batch, std::uint64_t counter, const LandingSets& records) {
    Bytes body;
    ByteWriter w(body);
    w.put(batch);
    w.put(counter);
    put_sets(w, records);
    return body;
}

}  // namespace

Result<BatchLedger> BatchLedger::open(const std::string& landing_dir, const Uuid& landing) {
    BatchLedger ledger;
    ledger.dir_ = landing_dir + "/batches";
    ledger.landing_ = landing;
    ledger.salt_ = random_u64();
    TALLY_TRY(make_dirs(ledger.dir_));
    const std::string path = ledger.dir_ + "/batches.log";
    const auto content = read_file(path, file_bytes_limit);
    if (!content && content.error().sys != ENOENT) return std::unexpected(content.error());
    if (content) {
        const ByteView all(*content);
        std::size_t at = 0;
        while (all.size() - at > head_bytes) {
            ByteReader in(all.subspan(at));
            const auto magic = in.get<std::uint32_t>();
            const auto bytes = in.get<std::uint32_t>();
            const auto hash = in.get<std::uint64_t>();
            const ByteView checked = in.bytes(std::size_t{bytes} + 1);
            if (magic != record_magic || !in.ok() || xxh3(checked) != hash || !ledger.replay(checked[0], checked.subspan(1))) break;
            at += in.at();
        }
        ledger.damaged_bytes_ = all.size() - at;
    }
    if (ledger.damaged_bytes_ != 0) {  // a torn last record is the ordinary trace of a crash; kept all the same
        const std::string aside = ledger.dir_ + "/damaged-" + std::to_string(wall_ns());
        TALLY_TRY(write_file_atomic(aside, *content));
        log_warn("sink.batches_damaged", {{"bytes", ledger.damaged_bytes_}, {"kept", aside}});
    }
    TALLY_TRY(ledger.compact());
    return ledger;
}

bool BatchLedger::replay(std::uint8_t kind, ByteView body) {
    ByteReader in(body);
    if (kind == kind_snapshot) {
        in.bytes(landing_.bytes.size());
        in.get<std::uint64_t>();  // an earlier life's salt: every life draws its own, so a restored landing repeats no id
        counter_ = in.get<std::uint64_t>();
        return get_sets(in, stored_);
    }
    if (kind == kind_plan) {
        BatchPlan plan;
        plan.batch = in.get<std::uint64_t>();
        counter_ = std::max(counter_, in.get<std::uint64_t>());
        if (!get_sets(in, plan.records)) return false;
        open_.push_back(std::move(plan));
        return true;
    }
    if (kind == kind_done) {
        const auto batch = in.get<std::uint64_t>();
        const auto it = std::find_if(open_.begin(), open_.end(), [&](const BatchPlan& p) { return p.batch == batch; });
        if (it == open_.end()) return in.ok();
        for (const auto& [start, set] : it->records) stored_[start].insert(set);
        open_.erase(it);
        return in.ok();
    }
    return false;
}

Status BatchLedger::append(std::uint8_t kind, const Bytes& body) {
    const Bytes record = record_of(kind, body);
    TALLY_TRY(write_all(file_.get(), record));
    if (::fdatasync(file_.get()) != 0) return fail_errno("sink: batches sync");
    file_bytes_ += record.size();
    return {};
}

Status BatchLedger::compact() {
    Bytes body;
    ByteWriter w(body);
    w.put(landing_);
    w.put(salt_);
    w.put(counter_);
    put_sets(w, stored_);
    Bytes out = record_of(kind_snapshot, body);
    for (const BatchPlan& plan : open_) {
        const Bytes record = record_of(kind_plan, plan_body(plan.batch, counter_, plan.records));
        out.insert(out.end(), record.begin(), record.end());
    }
    const std::string path = dir_ + "/batches.log";
    TALLY_TRY(write_file_atomic(path, out));
    file_.reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_) return fail_errno("sink: batches");
    file_bytes_ = out.size();
    return {};
}

Result<std::uint64_t> BatchLedger::plan(const LandingSets& records) {
    Bytes key;
    ByteWriter w(key);
    w.put(landing_);
    w.put(salt_);
    w.put(++counter_);
    const std::uint64_t hash = xxh3(ByteView(key));
    const std::uint64_t batch = hash == 0 ? 1 : hash;
    TALLY_TRY(append(kind_plan, plan_body(batch, counter_, records)));
    open_.push_back({batch, records});
    return batch;
}

Status BatchLedger::done(std::uint64_t batch) {
    Bytes body;
    ByteWriter(body).put(batch);
    TALLY_TRY(append(kind_done, body));
    replay(kind_done, body);
    return file_bytes_ > log_bytes_max ? compact() : Status{};
}

bool BatchLedger::is_stored(StartId start, Seq seq) const {
    const auto it = stored_.find(start);
    return it != stored_.end() && it->second.contains(raw(seq));
}

}  // namespace tally::sink
