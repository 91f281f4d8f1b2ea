// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/engine_limit.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/parcel/parcel.hpp"
#include "tools/bench/machine.hpp"
#include "tools/bench/stages.hpp"
#include "transport/sink/rows.hpp"
#include "transport/sink/schema.hpp"
#include "transport/sink/store.hpp"

namespace tally::bench {

namespace {

using Parcels = std::vector<Bytes>;

// As the sink cuts them: 16 M points a batch.
std::vector<Parcels> batches_of(const Shape& shape, bool quick) {
    const std::uint32_t frames = quick ? 2 : 16;
    const std::vector<Bytes> records = trace_records(shape, 1, frames);
    std::vector<Parcels> out(quick ? 1 : 3);
    EncodeStage stage(shape);
    std::uint64_t seq[lane_count] = {};
    for (Parcels& batch : out) {
        const auto keep = [&](intake::Batch& b) {
            for (intake::DraftParcel& p : b.parcels) {
                parcel::stamp(p.bytes, {Uuid{}, {StartId{1}, p.lane, Seq{++seq[static_cast<std::size_t>(p.lane)]}}, GroupNo{1}});
                batch.push_back(std::move(p.bytes));
            }
        };
        for (const Bytes& body : records) stage.record(body, shape.points(), keep);
        if (&batch == &out.back()) stage.finish(keep);
    }
    return out;
}

bool merging(sink::Connection& c) {
    const sink::Answer a = c.query("SELECT count() FROM system.merges");
    return a.ok() && a.rows != "0\n";
}

// What the store itself does with a batch, without its landing, plans and marks; building the rows is not counted.
double insert_all(sink::Connection& c, const std::vector<Parcels>& batches, std::string& error) {
    std::int64_t spent = 0;
    std::uint64_t points = 0;
    std::uint64_t number = 1;
    for (const Parcels& batch : batches) {
        sink::RowBuilder rows(number++);
        for (const Bytes& p : batch) rows.add_parcel(p);
        points += rows.points();
        const std::int64_t began = monotonic_ns();
        for (sink::Block* block : rows.blocks())
            if (error.empty())
                error = c.insert("INSERT INTO tallyman." + block->table() + block->column_list() +
                                     " SETTINGS async_insert = 0, max_insert_block_size = 1000000000, min_insert_block_size_rows = 0, "
                                     "min_insert_block_size_bytes = 0, optimize_on_insert = 0, input_format_parallel_parsing = 0, insert_deduplicate = 0",
                                 block->pieces());
        spent += monotonic_ns() - began;
    }
    const std::int64_t began = monotonic_ns();
    for (int quiet = 0; quiet < 5; quiet = merging(c) ? 0 : quiet + 1) ::usleep(100'000);
    spent += monotonic_ns() - began - 500'000'000;
    return static_cast<double>(points) * 1e9 / static_cast<double>(spent);
}

}  // namespace

std::expected<double, std::string> engine_limit(const std::string& dir, bool quick) {
    if (sink::find_chdb().empty()) return std::unexpected("libchdb not found");
    std::filesystem::create_directories(dir);
    const std::string answer = dir + "/answer";
    const pid_t child = spawn([&] {
        const std::vector<Parcels> batches = batches_of(shape_of(quick), quick);
        auto c = sink::Connection::open({{}, dir + "/store", {}});
        if (!c || !sink::apply_schema(**c)) return 1;
        std::string error;
        const double per_s = insert_all(**c, batches, error);
        if (!error.empty()) std::fprintf(stderr, "tallyman bench: the engine refused: %s\n", error.c_str());
        std::FILE* f = std::fopen(answer.c_str(), "w");
        if (f == nullptr) return 1;
        std::fprintf(f, "%.17g\n", per_s);
        std::fclose(f);
        return error.empty() ? 0 : 1;
    });
    if (wait_for(child) != 0) return std::unexpected("the engine alone failed");
    double per_s = 0;
    std::FILE* f = std::fopen(answer.c_str(), "r");
    if (f == nullptr || std::fscanf(f, "%lf", &per_s) != 1) per_s = 0;
    if (f != nullptr) std::fclose(f);
    return per_s;
}

}  // namespace tally::bench
