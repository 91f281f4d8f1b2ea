// SPDX-License-Identifier: Apache-2.0
#include "tools/import/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/base/hash.hpp"

namespace tally::import {

namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

template <class T>
void put(std::string& to, T v) {
    char raw[sizeof v];
    std::memcpy(raw, &v, sizeof v);
    to.append(raw, sizeof v);
}

// Hands rows on and keeps the chain.
class Chained final : public RowSink {
public:
    Chained(RowChain& chain, const Names& names, RowSink& out) : chain_(chain), names_(names), out_(out) {}
    bool row(const Row& r) override {
        chain_.add(r, names_);
        return stopped = !out_.row(r), !stopped;
    }
    void config(std::string_view json) override { out_.config(json); }
    bool stopped = false;

private:
    RowChain& chain_;
    const Names& names_;
    RowSink& out_;
};

}  // namespace

void RowChain::add(const Row& row, const Names& names) {
    scratch_.clear();
    put(scratch_, hash);
    put(scratch_, row.step);
    put(scratch_, row.time_ns);
    for (const Cell& c : row.cells) {
        scratch_ += names[c.name];
        scratch_ += '\0';
        put(scratch_, c.value.dtype);
        put(scratch_, c.value.bits);
    }
    hash = xxh3(std::string_view(scratch_));
    ++rows;
}

bool Source::open() {
    error_.clear();
    undecided_ = false;
    buffer_.clear();
    offset_ = 0;
    chain_ = {};
    reader_.reset();
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat st {};
    if (!fd_ || ::fstat(fd_.get(), &st) != 0) {
        error_ = std::string("cannot be opened: ") + std::strerror(errno);
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        error_ = "not a regular file";
        return false;
    }
    device_ = st.st_dev;
    inode_ = st.st_ino;
    if (!fill()) return false;
    const bool whole = buffer_.size() < piece_bytes;
    Opened opened = open_reader(buffer_, whole);
    undecided_ = opened.undecided;
    error_ = opened.why;
    reader_ = std::move(opened.reader);
    return reader_ != nullptr;
}

// One piece more; false on an error, and when there is nothing more error_ stays empty.
bool Source::fill() {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + piece_bytes);
    std::size_t got = 0;
    while (got < piece_bytes) {
        const ssize_t n = ::pread(fd_.get(), buffer_.data() + before + got, piece_bytes - got, static_cast<off_t>(offset_));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) error_ = std::string("cannot be read: ") + std::strerror(errno);
        if (n <= 0) break;
        got += static_cast<std::size_t>(n);
        offset_ += static_cast<std::uint64_t>(n);
    }
    buffer_.resize(before + got);
    return error_.empty();
}

bool Source::read(bool last, RowSink& out) {
    Chained sink(chain_, reader_->names(), out);
    while (true) {
        const std::uint64_t before = offset_;
        if (!fill()) return false;
        const bool end = offset_ - before < piece_bytes;  // of the file, as far as it goes now
        const std::size_t taken = reader_->read(buffer_, end && last, sink);
        buffer_.erase(0, taken);
        if (!reader_->broken().empty()) {
            error_ = reader_->broken();
            return false;
        }
        if (buffer_.size() > record_bytes_max + piece_bytes) {
            error_ = "a record is longer than an import takes";
            return false;
        }
        if (sink.stopped) return false;
        if (end) return true;
    }
}

Source::Change Source::look() const {
    struct stat st {};
    if (::stat(path_.c_str(), &st) != 0) return Change::none;  // gone: what was read stays read
    if (st.st_dev != device_ || st.st_ino != inode_ || static_cast<std::uint64_t>(st.st_size) < offset_) return Change::other;
    return static_cast<std::uint64_t>(st.st_size) > offset_ ? Change::grown : Change::none;
}

}  // namespace tally::import
