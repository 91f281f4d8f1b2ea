// SPDX-License-Identifier: Apache-2.0
//
// What    JSON lines (Ray result.json, wandb history, detectron2, anybody's) and the one document that is a log: Hugging Face's
//         trainer_state.json with its log_history.
#include <array>

#include "tools/import/flatten.hpp"
#include "tools/import/reader.hpp"

namespace tally::import {

namespace {

constexpr std::size_t config_bytes_max = 64 << 10;

// Best first; the first row decides for the whole file.
constexpr std::array<std::string_view, 9> step_keys{"_step", "timesteps_total", "training_iteration", "iteration", "global_step", "step",
                                                    "steps", "Step",            "epoch"};
constexpr std::array<std::string_view, 3> time_keys{"_timestamp", "timestamp", "wall_time"};

// Moves step and time from the cells of a row to where they belong.
class Stepper {
public:
    void apply(Row& row, const Names& names) {
        if (!decided_) decide(row, names);
        for (const Cell& c : row.cells) {
            const std::string& name = names[c.name];
            if (name == time_key_ && row.time_ns == 0) row.time_ns = time_ns_of(value_of(c.value));
        }
        if (key_.empty()) {
            row.step = next_++;
            return;
        }
        for (std::size_t i = 0; i < row.cells.size(); ++i) {
            if (names[row.cells[i].name] != key_) continue;
            const auto step = whole_of(row.cells[i].value);
            if (!step) break;
            row.step = *step;
            row.cells.erase(row.cells.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
        row.refused = "a row has no whole number under " + key_ + ", which is the step of this file";
    }
    std::string name() const { return key_.empty() ? "the row, from 0" : key_; }

private:
    static const Cell* find(const Row& row, const Names& names, std::string_view name) {
        for (const Cell& c : row.cells) {
            if (names[c.name] == name) return &c;
        }
        return nullptr;
    }
    void decide(const Row& row, const Names& names) {
        decided_ = true;
        for (const std::string_view key : step_keys) {
            const Cell* c = find(row, names, key);
            if (c != nullptr && whole_of(c->value)) {
                key_ = key;
                break;
            }
        }
        for (const std::string_view key : time_keys) {
            if (find(row, names, key) != nullptr) {
                time_key_ = key;
                break;
            }
        }
    }

    std::string key_, time_key_;
    std::int64_t next_ = 0;
    bool decided_ = false;
};

// Configuration that Ray repeats in every row.
void drop_config(Row& row, const Names& names) {
    const auto is_config = [&](std::uint32_t name) { return names[name].starts_with("config/"); };
    std::erase_if(row.cells, [&](const Cell& c) { return is_config(c.name); });
    std::erase_if(row.skipped, is_config);
}

class JsonLines final : public Reader {
public:
    std::string format() const override { return ray_ ? "Ray result.json" : "JSON lines"; }
    std::string step() const override { return stepper_.name(); }

    std::size_t read(std::string_view bytes, bool last, RowSink& out) override {
        std::size_t at = 0;
        while (at < bytes.size()) {
            const std::size_t end = bytes.find('\n', at);
            const bool open = end == bytes.npos;
            if (open && !last) break;
            const std::string_view line = bytes.substr(at, open ? bytes.npos : end - at);
            const std::size_t taken = open ? bytes.size() : end + 1;
            if (!take(line, open, taken, out, at)) break;
        }
        return at;
    }

private:
    bool take(std::string_view line, bool open, std::size_t taken, RowSink& out, std::size_t& at) {
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
        if (open && line.find_first_not_of('\0') == line.npos) return false;  // written, not yet filled
        if (without_blanks(line).empty()) {
            at = taken;
            return true;
        }
        row_.clear();
        if (without_blanks(line).front() != '{' || !flatten(line, {}, names_, row_)) {
            if (open) return false;  // a torn tail
            row_.clear();
            row_.refused = "a line is no JSON object";
        } else {
            finish(line, out);
        }
        at = taken;
        return out.row(row_);
    }
    void finish(std::string_view line, RowSink& out) {
        if (first_) {
            first_ = false;
            for (std::uint32_t i = 0; i < names_.size(); ++i) ray_ = ray_ || names_[i] == "training_iteration";
            const std::string config = ray_ ? member_text(line, "config", config_bytes_max) : "";
            if (!config.empty()) out.config(config);
        }
        if (ray_) drop_config(row_, names_);
        stepper_.apply(row_, names_);
    }

    Row row_;
    Stepper stepper_;
    bool first_ = true;
    bool ray_ = false;
};

class JsonDocument final : public Reader {
public:
    std::string format() const override { return "trainer_state.json"; }
    std::string step() const override { return stepper_.name(); }

    // Such a file is written anew each time, not appended to: it is whole or it is not there.
    std::size_t read(std::string_view bytes, bool last, RowSink& out) override {
        if (!last || bytes.empty()) return 0;
        bool going = true;
        const auto each = [&](const Row&) {
            stepper_.apply(row_, names_);
            going = out.row(row_);
            return going;
        };
        if (!flatten_list(bytes, "log_history", names_, row_, each) && going) {
            broken_ = "no whole JSON document with a log_history";
            return 0;
        }
        return bytes.size();
    }

private:
    Row row_;
    Stepper stepper_;
};

}  // namespace

std::unique_ptr<Reader> open_json_lines() { return std::make_unique<JsonLines>(); }
std::unique_ptr<Reader> open_json_document() { return std::make_unique<JsonDocument>(); }

}  // namespace tally::import
