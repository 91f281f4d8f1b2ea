// SPDX-License-Identifier: Apache-2.0
#include "tools/load/load.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

#include "agent/base/clock.hpp"
#include "agent/client/tallyman.h"

namespace tally::load {

namespace {

struct Slice {
    std::uint32_t env_first;
    std::uint32_t env_count;
};

Slice slice_of(const Options& o, std::uint32_t p) {
    const auto first = static_cast<std::uint32_t>(std::uint64_t{p} * o.envs / o.producers);
    const auto last = static_cast<std::uint32_t>((std::uint64_t{p} + 1) * o.envs / o.producers);
    return {first, last - first};
}

std::string metric_name(std::uint32_t m) {
    char text[16];
    std::snprintf(text, sizeof text, "m%02u", m);
    return text;
}

class Producer {
public:
    Producer(const Options& options, const std::string& run_id, std::uint32_t index)
        : o_(options), slice_(slice_of(options, index)), index_(index), run_id_(run_id),
          generator_(options.shape, options.seed, options.metrics, slice_.env_first, slice_.env_count, options.dtype) {}

    void run() {
        if (slice_.env_count == 0) return;
        if (!open()) return;
        const std::uint64_t steps = std::uint64_t{o_.rl_steps} * o_.env_steps;
        const std::int64_t began = monotonic_ns();
        for (std::uint64_t step = 0; step < steps; step += o_.frame_steps) {
            if (!log_frame(step) || !log_episodes(step)) break;
            pace(began, step + o_.frame_steps);
        }
        logged_ns_ = monotonic_ns() - began;
        if (o_.flush_level > 0) {
            const int rc = tally_flush(run_, o_.flush_level, o_.flush_timeout_ns);
            if (rc < 0) error_ = std::string("flush: ") + tally_last_error(run_);
        }
        level_ns_ = monotonic_ns() - began;
        tally_progress_info info{};
        info.size = sizeof info;
        if (tally_progress(run_, &info) == 0) dropped_ = info.points_dropped;
        const int rc = tally_run_close(run_, 0);
        if (rc < 0 && error_.empty()) error_ = "close: the agent has not taken everything yet";
    }

    void add_to(Totals& t) const {
        t.points += points_;
        t.dropped += dropped_;
        t.headers += headers_;
        t.seconds = std::max(t.seconds, static_cast<double>(logged_ns_) / 1e9);
        t.seconds_to_level = std::max(t.seconds_to_level, static_cast<double>(level_ns_) / 1e9);
        if (!error_.empty()) t.errors.push_back("producer " + std::to_string(index_) + ": " + error_);
    }

private:
    bool open() {
        tally_run_options opts = TALLY_RUN_OPTIONS_INIT;
        const std::string role = std::to_string(index_);
        opts.socket = o_.socket.empty() ? nullptr : o_.socket.c_str();
        opts.project = o_.project.c_str();
        opts.run_id = run_id_.c_str();
        opts.role = role.c_str();
        opts.producers = o_.producers;
        opts.block_timeout_ns = 60'000'000'000;  // a load test waits for the pipeline instead of dropping
        if (tally_run_open(&opts, &run_) < 0) {
            error_ = tally_last_error(nullptr);
            return false;
        }
        std::vector<std::string> names;
        for (std::uint32_t m = 0; m < o_.metrics; ++m) names.push_back(metric_name(m));
        std::vector<const char*> pointers;
        for (const std::string& n : names) pointers.push_back(n.c_str());
        tally_block_options b = TALLY_BLOCK_OPTIONS_INIT;
        b.metrics = o_.metrics;
        b.names = pointers.data();
        b.dtype = static_cast<int>(o_.dtype);
        b.env_first = slice_.env_first;
        b.env_count = slice_.env_count;
        block_ = tally_block_open(run_, &b);
        if (block_ < 0) {
            error_ = tally_last_error(run_);
            tally_run_close(run_, 1);
            return false;
        }
        const std::size_t frame = std::size_t{o_.metrics} * slice_.env_count * dtype_width(o_.dtype);
        matrix_.resize(frame * o_.frame_steps);
        return true;
    }

    bool log_frame(std::uint64_t step) {
        const std::size_t frame_bytes = matrix_.size() / o_.frame_steps;
        for (std::uint32_t k = 0; k < o_.frame_steps; ++k) generator_.fill(step + k, matrix_.data() + k * frame_bytes);
        tally_frame f = TALLY_FRAME_INIT;
        f.step = static_cast<std::int64_t>(step);
        f.steps = o_.frame_steps;
        f.matrix = matrix_.data();
        f.at.has_rl_step = 1;
        f.at.rl_step = static_cast<std::int64_t>(step / o_.env_steps);
        const int rc = tally_block_log(run_, block_, &f);
        if (rc < 0) {
            error_ = tally_last_error(run_);
            return false;
        }
        points_ += std::uint64_t{o_.frame_steps} * o_.metrics * slice_.env_count;
        return true;
    }

    // Episodes that end within [step, step + frame_steps), each logged with the step that ends it.
    bool log_episodes(std::uint64_t step) {
        for (std::uint32_t k = 0; k < o_.frame_steps; ++k) {
            const std::uint64_t done = step + k + 1;
            if (done % 64 != 0) continue;
            env_.clear();
            episode_.clear();
            length_.clear();
            return_.clear();
            for (std::uint32_t i = 0; i < slice_.env_count; ++i) {
                const std::uint32_t length = episode_length(slice_.env_first + i);
                if (done % length != 0) continue;
                env_.push_back(slice_.env_first + i);
                episode_.push_back(static_cast<std::int64_t>(done / length - 1));
                length_.push_back(length);
                return_.push_back(length);
            }
            if (env_.empty()) continue;
            tally_at at{};
            const int rc = tally_episodes(run_, static_cast<std::int64_t>(done - 1), 1, env_.size(), env_.data(), episode_.data(),
                                          length_.data(), return_.data(), &at);
            if (rc < 0) {
                error_ = tally_last_error(run_);
                return false;
            }
            headers_ += env_.size();
        }
        return true;
    }

    void pace(std::int64_t began, std::uint64_t steps_done) const {
        if (o_.points_per_s <= 0) return;
        const double share = o_.points_per_s * slice_.env_count / o_.envs;
        const double due_s = static_cast<double>(steps_done) * o_.metrics * slice_.env_count / share;
        const double ahead_s = due_s - static_cast<double>(monotonic_ns() - began) / 1e9;
        if (ahead_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(ahead_s));
    }

    const Options& o_;
    Slice slice_;
    std::uint32_t index_;
    std::string run_id_;
    Generator generator_;
    tally_run* run_ = nullptr;
    int block_ = -1;
    std::vector<std::uint8_t> matrix_;
    std::vector<std::uint32_t> env_;
    std::vector<std::int64_t> episode_;
    std::vector<std::int64_t> length_;
    std::vector<double> return_;
    std::uint64_t points_ = 0;
    std::uint64_t dropped_ = 0;
    std::uint64_t headers_ = 0;
    std::int64_t logged_ns_ = 0;
    std::int64_t level_ns_ = 0;
    std::string error_;
};

}  // namespace

Totals load(const Options& options) {
    Totals totals;
    totals.run = options.run.empty() ? "load-" + Uuid::random().text().substr(0, 8) : options.run;
    std::vector<Producer> producers;
    for (std::uint32_t p = 0; p < options.producers; ++p) producers.emplace_back(options, totals.run, p);
    {
        std::vector<std::jthread> threads;
        for (Producer& p : producers) threads.emplace_back([&p] { p.run(); });
    }
    for (const Producer& p : producers) p.add_to(totals);
    return totals;
}

std::uint64_t points_of(const Options& o) {
    return std::uint64_t{o.envs} * o.metrics * o.rl_steps * o.env_steps;
}

std::uint64_t headers_of(const Options& o) {
    const std::uint64_t steps = std::uint64_t{o.rl_steps} * o.env_steps;
    std::uint64_t n = 0;
    for (std::uint32_t e = 0; e < o.envs; ++e) n += steps / episode_length(e);
    return n;
}

}  // namespace tally::load
