// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What every log format becomes: rows of named numbers at a step. One Reader per file; open_reader() looks at the bytes, not at
//         the file's name, to say which format it is.
// Flow    bytes of a file -> Reader -> RowSink (tools/import/import.cpp)
// Threads One thread at a time.
// Owns    A Row and its cells are valid during RowSink::row only. Names live as long as the Reader.
// Invariants
//   I1  Whatever the bytes are, a Reader ends: it takes whole records, refuses by name what it cannot read, and leaves a tail that is
//       not whole untaken.
//   I2  Reading a file in any cuts gives the same rows as reading it at once.
//   I3  Nothing is merged, sorted or dropped; cells keep their order.
// Limits  A record (line, event, wandb record) of more than 64 MiB is refused with the rest of its file; JSON nests at most 64 deep.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/import/number.hpp"

namespace tally::import {

inline constexpr std::size_t record_bytes_max = std::size_t{64} << 20;

// Names of metrics as small numbers, so that a row costs no string.
class Names {
public:
    std::uint32_t index_of(std::string_view name);
    const std::string& operator[](std::uint32_t index) const { return *names_[index]; }
    std::size_t size() const { return names_.size(); }

private:
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> index_;
    std::vector<const std::string*> names_;  // keys of index_, whose addresses stay
};

struct Cell {
    std::uint32_t name = 0;
    Number value;
};

struct Row {
    std::int64_t step = 0;
    std::int64_t time_ns = 0;  // 0 = the log does not say
    std::vector<Cell> cells;
    std::vector<std::uint32_t> skipped;  // names of text, lists and media
    std::uint64_t nulls = 0;
    std::string refused;  // why the row as a whole cannot be taken; empty = it can

    void clear();
};

class RowSink {
public:
    virtual ~RowSink() = default;
    // False: stop reading. The row was taken all the same.
    virtual bool row(const Row& row) = 0;
    // The run's configuration, as JSON text, when the log holds it; before the first row that follows it.
    virtual void config(std::string_view json) = 0;
};

class Reader {
public:
    virtual ~Reader() = default;
    // Takes whole records from the front of `bytes` and says how many bytes they were; the next call begins there. `last`: no more bytes
    // are expected, so a final line without newline counts if it is whole.
    virtual std::size_t read(std::string_view bytes, bool last, RowSink& out) = 0;
    virtual std::string format() const = 0;
    virtual std::string step() const = 0;  // what serves as the step, for people
    // Set once the rest of the file cannot be read; read() takes nothing any more.
    const std::string& broken() const { return broken_; }
    const Names& names() const { return names_; }

protected:
    Names names_;
    std::string broken_;
};

struct Opened {
    std::unique_ptr<Reader> reader;  // null: no metric log
    std::string why;                 // then what it is instead
    bool undecided = false;          // too few bytes yet to say
};
// `head`: the first bytes of the file (1 MiB or all). `whole`: they are all of it.
Opened open_reader(std::string_view head, bool whole);

std::unique_ptr<Reader> open_tfevents();
std::unique_ptr<Reader> open_wandb();
std::unique_ptr<Reader> open_json_lines();
std::unique_ptr<Reader> open_json_document();
std::unique_ptr<Reader> open_csv();

bool looks_like_tfevents(std::string_view head);
bool looks_like_wandb(std::string_view head);

}  // namespace tally::import
