// SPDX-License-Identifier: Apache-2.0
//
// What    CSV and its relatives: commas, tabs or semicolons; Stable-Baselines3 progress and monitor files, Spinning Up, Ray progress.csv,
//         Lightning, Keras, exports of web pages, and what nvidia-smi writes without a header.
#include <algorithm>
#include <array>

#include <csv.h>

#include "tools/import/flatten.hpp"
#include "tools/import/reader.hpp"

namespace tally::import {

namespace {

// Best first; a column is taken when its first cell is a whole number.
constexpr std::array<std::string_view, 16> step_columns{
    "time/total_timesteps", "TotalEnvInteracts", "total-env-interacts", "timesteps_total", "training_iteration", "global_step", "_step", "step",
    "Step",                 "timesteps",         "total_timesteps",     "iteration",       "Iteration",          "Epoch",       "epoch", "steps"};

struct Csv {  // libcsv's parser with its memory
    csv_parser p{};
    explicit Csv(char delimiter) {
        csv_init(&p, 0);
        csv_set_delim(&p, static_cast<unsigned char>(delimiter));
        // Blanks belong to names; numbers are trimmed where they are read.
        csv_set_space_func(&p, [](unsigned char) { return 0; });
    }
    ~Csv() { csv_free(&p); }
    Csv(const Csv&) = delete;
    Csv& operator=(const Csv&) = delete;
};

char delimiter_of(std::string_view line) {
    std::array<std::pair<char, std::size_t>, 3> seen{{{',', 0}, {'\t', 0}, {';', 0}}};
    bool quoted = false;
    for (const char c : line) {
        if (c == '"') quoted = !quoted;
        for (auto& [d, n] : seen) n += !quoted && c == d ? 1 : 0;
    }
    return std::max_element(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
}

std::optional<Number> truth_of(std::string_view text) {
    text = without_blanks(text);
    if (text == "True" || text == "true") return of_bool(true);
    if (text == "False" || text == "false") return of_bool(false);
    return std::nullopt;
}

class CsvLog final : public Reader {
public:
    std::string format() const override { return monitor_ ? "episode monitor" : units_ ? "readings without a header" : "CSV"; }
    std::string step() const override { return length_column_ ? "sum of l" : step_column_ ? columns_[*step_column_] : "the row, from 0"; }

    std::size_t read(std::string_view bytes, bool last, RowSink& out) override {
        out_ = &out;
        going_ = true;
        std::size_t taken = 0;
        std::size_t at = fed_;
        while (going_ && broken_.empty()) {
            const std::size_t end = bytes.find('\n', at);
            if (end == bytes.npos) break;
            feed(bytes.substr(at, end + 1 - at));
            at = end + 1;
            if (between_rows_) taken = at;
        }
        if (last && going_ && broken_.empty() && at < bytes.size()) {
            const std::string_view tail = bytes.substr(at);
            if (finish(tail)) taken = at = bytes.size();
        }
        fed_ = at - taken;
        return taken;
    }

private:
    void feed(std::string_view piece) {
        if (parser_ == nullptr && !begin(piece)) return;
        if (csv_parse(&parser_->p, piece.data(), piece.size(), on_cell, on_row, this) != piece.size()) {
            broken_ = std::string("not readable as CSV: ") + csv_strerror(csv_error(&parser_->p));
            return;
        }
        between_rows_ = parser_->p.pstate == 0;
        if (cells_bytes_ + parser_->p.entry_pos > record_bytes_max) broken_ = "a row is longer than an import takes: a quote is not closed";
    }

    // Before the header: marks, comments, blank lines. True when `line` is the first line that counts.
    bool begin(std::string_view& line) {
        if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
        const std::string_view text = without_blanks(line.substr(0, line.find_first_of("\r\n")));
        if (text.empty()) return false;
        if (text.front() == '#') {
            take_comment(text.substr(1));
            return false;
        }
        parser_ = std::make_unique<Csv>(delimiter_of(text));
        return true;
    }

    // A last line without newline: whole when it has as many cells as the header.
    bool finish(std::string_view tail) {
        const std::size_t end = tail.find_last_not_of('\0');
        if (end == tail.npos || end + 1 != tail.size()) return false;
        if (parser_ == nullptr && !begin(tail)) return true;
        finishing_ = true;
        torn_ = false;
        csv_parse(&parser_->p, tail.data(), tail.size(), on_cell, on_row, this);
        const bool within_quotes = parser_->p.quoted != 0 && parser_->p.pstate == 2;  // a field has begun and its quote is open
        if (within_quotes || csv_fini(&parser_->p, on_cell, on_row, this) != 0) torn_ = true;
        return !torn_;
    }

    static void on_cell(void* text, std::size_t bytes, void* self) {
        auto& s = *static_cast<CsvLog*>(self);
        s.cells_.emplace_back(static_cast<const char*>(text), bytes);
        s.cells_bytes_ += bytes + 1;
    }
    static void on_row(int, void* self) { static_cast<CsvLog*>(self)->end_row(); }

    void end_row() {
        if (going_) take_cells();
        cells_.clear();
        cells_bytes_ = 0;
    }

    void take_cells() {
        if (columns_.empty()) {
            if (!is_data(cells_)) {
                take_header();
                return;
            }
            name_columns();
        } else if (cells_ == columns_) {
            return;  // a header again, where a writer began anew
        }
        if (finishing_ && cells_.size() < columns_.size()) {
            torn_ = true;
            return;
        }
        row_.clear();
        while (cells_.size() > columns_.size() && cells_.back().empty()) cells_.pop_back();
        if (cells_.size() != columns_.size()) {
            row_.refused = "a row has " + std::to_string(cells_.size()) + " cells where the header has " + std::to_string(columns_.size());
        } else {
            if (!decided_) decide();
            take_row();
        }
        going_ = out_->row(row_);
    }

    // A first line that holds readings is no header.
    static bool is_data(const std::vector<std::string>& cells) {
        std::size_t numbers = 0;
        for (const std::string& c : cells) {
            if (number_with_unit(c)) return true;
            numbers += number_of_text(c) ? 1 : 0;
        }
        return numbers == cells.size();
    }

    void take_header() {
        columns_ = cells_;
        index_names();
    }
    void name_columns() {
        units_ = true;
        for (std::size_t i = 0; i < cells_.size(); ++i) columns_.push_back("column_" + std::to_string(i));
        index_names();
    }
    void index_names() {
        for (const std::string& c : columns_) {
            name_index_.push_back(names_.index_of(c));
            units_ = units_ || c.ends_with("[%]") || c.ends_with("[MiB]") || c.ends_with("[W]");
        }
    }

    void take_comment(std::string_view json) {
        Names names;
        Row row;
        if (!flatten(json, {}, names, row)) return;
        for (const Cell& c : row.cells) {
            if (names[c.name] != "t_start") continue;
            monitor_ = true;
            start_s_ = value_of(c.value);
        }
    }

    std::optional<std::size_t> column(std::string_view name) const {
        const auto it = std::find(columns_.begin(), columns_.end(), name);
        if (it == columns_.end()) return std::nullopt;
        return static_cast<std::size_t>(it - columns_.begin());
    }
    std::optional<std::int64_t> whole_cell(std::size_t i) const {
        const auto n = number_of_text(cells_[i]);
        return n ? whole_of(*n) : std::nullopt;
    }

    void decide() {
        decided_ = true;
        if (monitor_) {
            length_column_ = column("l");
            time_column_ = column("t");
        } else {
            time_column_ = column("timestamp");
        }
        if (length_column_) return;
        for (const std::string_view name : step_columns) {
            const auto i = column(name);
            if (!i || !whole_cell(*i)) continue;
            step_column_ = i;
            return;
        }
    }

    void take_row() {
        if (!take_step()) return;
        for (std::size_t i = 0; i < cells_.size(); ++i) {
            if (step_column_ == i) continue;
            const std::string_view text = without_blanks(cells_[i]);
            auto n = number_of_text(text);
            if (!n) n = truth_of(text);
            if (!n && units_) n = number_with_unit(text);
            if (n) {
                row_.cells.push_back({name_index_[i], *n});
            } else if (text.empty()) {
                ++row_.nulls;
            } else {
                row_.skipped.push_back(name_index_[i]);
            }
        }
        if (time_column_) {
            if (const auto n = number_of_text(cells_[*time_column_])) row_.time_ns = time_ns_of(start_s_ + value_of(*n));
        }
    }

    bool take_step() {
        if (length_column_) {
            if (const auto length = whole_cell(*length_column_)) {
                total_length_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(total_length_) + static_cast<std::uint64_t>(*length));
                row_.step = total_length_;
                return true;
            }
            row_.refused = "a row has no whole number under l, the length of the episode";
            return false;
        }
        if (!step_column_) {
            row_.step = next_++;
            return true;
        }
        if (const auto step = whole_cell(*step_column_)) {
            row_.step = *step;
            return true;
        }
        row_.refused = "a row has no whole number under " + columns_[*step_column_] + ", which is the step of this file";
        return false;
    }

    std::unique_ptr<Csv> parser_;
    RowSink* out_ = nullptr;
    Row row_;
    std::vector<std::string> cells_, columns_;
    std::vector<std::uint32_t> name_index_;
    std::optional<std::size_t> step_column_, length_column_, time_column_;
    std::size_t fed_ = 0;  // bytes behind what was taken that the parser has seen: a row with newlines in quotes
    std::size_t cells_bytes_ = 0;
    std::int64_t next_ = 0, total_length_ = 0;
    double start_s_ = 0;
    bool between_rows_ = true, going_ = true, decided_ = false;
    bool monitor_ = false, units_ = false, finishing_ = false, torn_ = false;
};

}  // namespace

std::unique_ptr<Reader> open_csv() { return std::make_unique<CsvLog>(); }

}  // namespace tally::import
