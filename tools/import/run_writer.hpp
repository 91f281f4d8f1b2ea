// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Rows of foreign logs into a run, through the client library and this host's agent: as a trainer would, waiting instead of
//         dropping.
// Threads The thread that opened it.
// Errors  Sentences: error(). After one the run takes nothing more.

#include <array>
#include <string>
#include <vector>

#include "tools/import/reader.hpp"

struct tally_run;

namespace tally::import {

struct Target {
    std::string run;
    std::string project;
    std::string socket;  // empty = the client's default
};

// The series that the names of one Reader stand for.
struct SeriesMap {
    std::vector<std::array<int, 14>> of;  // by name and dtype; 0 = not looked up, n + 1 = series n, -1 = refused
};

class RunWriter {
public:
    explicit RunWriter(Target target) : target_(std::move(target)) {}
    ~RunWriter();
    RunWriter(const RunWriter&) = delete;
    RunWriter& operator=(const RunWriter&) = delete;

    // Opens the run on the first call and waits for the agent.
    bool open();
    // Logs the cells of a row in one record. Cells whose name cannot be a metric are told to `refused`.
    bool log(const Row& row, const Names& names, SeriesMap& map, std::vector<std::uint32_t>& refused, std::uint64_t& points);
    bool config(std::string_view json);
    // Waits until the agent has synced everything to its spool.
    bool flush();
    bool close();
    const std::string& error() const { return error_; }

private:
    bool fail(const std::string& what);
    int series_of(const Cell& cell, const Names& names, SeriesMap& map);

    Target target_;
    tally_run* run_ = nullptr;
    std::string error_;
};

}  // namespace tally::import
