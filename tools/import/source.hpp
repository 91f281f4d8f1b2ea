// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    One file being imported: read in pieces, its rows counted and chained, so that the same rows are known again whichever file
//         they stand in.
// Flow    file -> Reader -> RowChain -> RowSink
// Threads One thread at a time.
// Errors  What cannot be read is said in Reader::broken() and in error(); rows before it are kept.
// Limits  Holds at most record_bytes_max plus one piece in memory.

#include <sys/types.h>

#include <functional>
#include <string>

#include "agent/base/fd.hpp"
#include "tools/import/reader.hpp"

namespace tally::import {

// How many rows, and a hash over all of them in order: steps, times, names, dtypes, bits.
struct RowChain {
    std::uint64_t rows = 0;
    std::uint64_t hash = 0;
    void add(const Row& row, const Names& names);
    bool operator==(const RowChain&) const = default;

private:
    std::string scratch_;
};

class Source {
public:
    explicit Source(std::string path) : path_(std::move(path)) {}

    // Opens the file (again) and finds out what it is. False: error() says why; undecided() whether that may change.
    bool open();
    // Reads what is there now. `last`: take a final line without newline. False: `out` stopped it or an error came up.
    bool read(bool last, RowSink& out);
    // Whether the path holds more than was read, or another file than the one opened.
    enum class Change { none, grown, other };
    Change look() const;

    const std::string& path() const { return path_; }
    const Reader* reader() const { return reader_.get(); }
    const RowChain& chain() const { return chain_; }
    std::uint64_t unread_bytes() const { return buffer_.size(); }  // the torn tail, after read(true, ...)
    const std::string& error() const { return error_; }
    bool undecided() const { return undecided_; }

private:
    bool fill();

    std::string path_;
    Fd fd_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
    std::uint64_t offset_ = 0;  // of the end of buffer_
    std::string buffer_;        // read, not yet taken
    std::unique_ptr<Reader> reader_;
    RowChain chain_;
    std::string error_;
    bool undecided_ = false;
};

}  // namespace tally::import
