// SPDX-License-Identifier: Apache-2.0
#include "agent/base/fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tally {

namespace {
std::string parent_of(const std::string& path) {
    const auto slash = path.find_last_of('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}
}  // namespace

void Fd::reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
}

Result<Bytes> read_file(const std::string& path, std::size_t bytes_max) {
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return fail_errno("open for reading");
    Bytes out;
    for (;;) {
        const std::size_t at = out.size();
        if (at > bytes_max) return fail(Code::too_big, "file is larger than allowed", at);
        out.resize(at + 64 * 1024);
        const ssize_t n = ::read(fd.get(), out.data() + at, 64 * 1024);
        if (n < 0 && errno != EINTR) return fail_errno("read");
        out.resize(at + static_cast<std::size_t>(n > 0 ? n : 0));
        if (n == 0) return out;
    }
}

Status write_all(int fd, ByteView bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("write");
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

Status fsync_dir(const std::string& dir) {
    Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return fail_errno("open directory");
    if (::fsync(fd.get()) != 0) return fail_errno("fsync directory");
    return {};
}

Status write_file_atomic(const std::string& path, ByteView content, unsigned mode) {
    const std::string temp = path + ".new";
    {
        Fd fd(::open(temp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
        if (!fd) return fail_errno("create");
        TALLY_TRY(write_all(fd.get(), content));
        if (::fsync(fd.get()) != 0) return fail_errno("fsync");
    }
    if (::rename(temp.c_str(), path.c_str()) != 0) return fail_errno("rename");
    return fsync_dir(parent_of(path));
}

Status make_dirs(const std::string& path, unsigned mode) {
    if (::mkdir(path.c_str(), mode) == 0) return fsync_dir(parent_of(path));
    if (errno == ENOENT) {
        TALLY_TRY(make_dirs(parent_of(path), mode));
        if (::mkdir(path.c_str(), mode) == 0) return fsync_dir(parent_of(path));
    }
    if (errno != EEXIST) return fail_errno("mkdir");
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0) return fail_errno("stat");
    if (!S_ISDIR(st.st_mode)) return fail_errno("not a directory", ENOTDIR);
    return {};
}

}  // namespace tally
