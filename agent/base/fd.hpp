// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    An owned file descriptor, and the few whole-file helpers that metadata files need.

#include <string>
#include <utility>

#include "agent/base/bytes.hpp"
#include "agent/base/result.hpp"

namespace tally {

class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    ~Fd() { reset(); }
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1);

private:
    int fd_ = -1;
};

// Reads at most `bytes_max`; more is too_big.
Result<Bytes> read_file(const std::string& path, std::size_t bytes_max);
// Writes beside the target, fsyncs, renames over it, fsyncs the directory: old or new, never half.
Status write_file_atomic(const std::string& path, ByteView content, unsigned mode = 0600);
Status fsync_dir(const std::string& dir);
// mkdir -p, each new directory synced into its parent.
Status make_dirs(const std::string& path, unsigned mode = 0700);
// Writes all of it, resuming short writes and EINTR.
Status write_all(int fd, ByteView bytes);

}  // namespace tally
