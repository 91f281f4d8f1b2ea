// SPDX-License-Identifier: Apache-2.0
#include "tools/import/run_writer.hpp"

#include <cerrno>
#include <chrono>
#include <thread>

#include "agent/client/tallyman.h"

namespace tally::import {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t patience_ns = 3600 * second_ns;  // an importer waits for space; it has nothing else to do
constexpr int agent_wait_s = 10;
constexpr std::size_t cells_per_record = 4096;

}  // namespace

RunWriter::~RunWriter() { close(); }

bool RunWriter::fail(const std::string& what) {
    if (error_.empty()) error_ = what;
    return false;
}

bool RunWriter::open() {
    if (run_ != nullptr) return true;
    if (!error_.empty()) return false;
    tally_run_options o = TALLY_RUN_OPTIONS_INIT;
    o.socket = target_.socket.empty() ? nullptr : target_.socket.c_str();
    o.project = target_.project.empty() ? nullptr : target_.project.c_str();
    o.run_id = target_.run.c_str();
    o.role = "import";
    o.mode = TALLY_MODE_ONLINE;
    o.block_timeout_ns = patience_ns;
    if (tally_run_open(&o, &run_) < 0) {
        run_ = nullptr;
        return fail(tally_last_error(nullptr));
    }
    tally_progress_info info{};
    info.size = sizeof info;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(agent_wait_s);
    while (tally_progress(run_, &info) == 0 && info.connected == 0) {
        if (std::chrono::steady_clock::now() > until) {
            return fail("no agent answers: start `tallyman agent` on this host, or name its socket with --socket");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
}

int RunWriter::series_of(const Cell& cell, const Names& names, SeriesMap& map) {
    if (cell.name >= map.of.size()) map.of.resize(names.size());
    int& known = map.of[cell.name][static_cast<std::size_t>(cell.value.dtype)];
    if (known == 0) {
        const std::string& name = names[cell.name];
        const int id = metric_name_valid(name) ? tally_series(run_, name.c_str(), static_cast<int>(cell.value.dtype)) : -EINVAL;
        known = id >= 0 ? id + 1 : -1;
    }
    return known - 1;
}

bool RunWriter::log(const Row& row, const Names& names, SeriesMap& map, std::vector<std::uint32_t>& refused, std::uint64_t& points) {
    if (!open()) return false;
    tally_at at{};
    at.time_ns = row.time_ns;
    std::vector<tally_scalar> values;
    values.reserve(std::min(row.cells.size(), cells_per_record));
    const auto send = [&] {
        if (values.empty()) return true;
        if (tally_log_many(run_, row.step, values.data(), values.size(), &at) < 0) return fail(tally_last_error(run_));
        points += values.size();
        values.clear();
        return true;
    };
    for (const Cell& c : row.cells) {
        const int series = series_of(c, names, map);
        if (series < 0) {
            refused.push_back(c.name);
            continue;
        }
        values.push_back({static_cast<std::uint32_t>(series), 0, c.value.bits});
        if (values.size() == cells_per_record && !send()) return false;
    }
    return send();
}

bool RunWriter::config(std::string_view json) {
    if (!open()) return false;
    if (tally_event(run_, "config", "", json.data(), json.size(), 0) < 0) return fail(tally_last_error(run_));
    return true;
}

bool RunWriter::flush() {
    if (run_ == nullptr) return error_.empty();
    tally_progress_info info{};
    info.size = sizeof info;
    if (tally_flush(run_, TALLY_DISK, patience_ns) < 0) return fail(std::string("not everything is durable: ") + tally_last_error(run_));
    if (tally_progress(run_, &info) == 0 && info.points_dropped > 0) return fail(std::to_string(info.points_dropped) + " points were dropped at a full ring");
    return true;
}

bool RunWriter::close() {
    if (run_ == nullptr) return error_.empty();
    const int rc = tally_run_close(run_, error_.empty() ? 0 : 1);
    run_ = nullptr;
    return rc == 0 || fail("close: the agent has not taken everything yet");
}

}  // namespace tally::import
