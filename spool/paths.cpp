// SPDX-License-Identifier: Apache-2.0
#include "spool/paths.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

namespace tally::spool {

namespace {

std::optional<std::uint64_t> parse_hex16(std::string_view text) {
    if (text.size() != 16) return std::nullopt;
    std::uint64_t value = 0;
    for (const char c : text) {
        const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (!digit) return std::nullopt;
        value = value * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
}

}  // namespace

std::string hex16(std::uint64_t value) {
    std::string out(16, '0');
    for (std::size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
    return out;
}

std::string lane_dir(const std::string& dir, Lane lane) {
    return dir + "/" + lane_name(lane);
}

std::string segment_name(std::uint64_t number) {
    return hex16(number) + ".seg";
}

std::optional<std::uint64_t> parse_segment_name(std::string_view name) {
    if (name.size() != 20 || !name.ends_with(".seg")) return std::nullopt;
    const auto number = parse_hex16(name.substr(0, 16));
    // The last number would leave no successor.
    if (!number || *number == 0 || *number == ~0ULL) return std::nullopt;
    return number;
}

std::string parked_name(const ParcelId& id) {
    return hex16(raw(id.start)) + "-" + lane_name(id.lane) + "-" + hex16(raw(id.seq));
}

std::optional<ParcelId> parse_parked_name(std::string_view name) {
    if (!name.ends_with(".parcel")) return std::nullopt;
    name.remove_suffix(7);
    const auto start = parse_hex16(name.substr(0, std::min<std::size_t>(16, name.size())));
    if (!start || name.size() != 16 + 1 + 4 + 1 + 16) return std::nullopt;
    const auto seq = parse_hex16(name.substr(22));
    const auto text = name.substr(17, 4);
    for (const Lane lane : {Lane::live, Lane::bulk, Lane::file}) {
        if (seq && text == lane_name(lane)) return ParcelId{StartId{*start}, lane, Seq{*seq}};
    }
    return std::nullopt;
}

Result<std::vector<DirEntry>> list_dir(const std::string& dir) {
    std::vector<DirEntry> out;
    std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(dir.c_str()), &::closedir);
    if (!handle) {
        if (errno == ENOENT) return out;
        return fail_errno("list folder");
    }
    errno = 0;
    while (const dirent* entry = ::readdir(handle.get())) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        struct stat st{};
        if (::fstatat(::dirfd(handle.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        out.push_back({std::string(name), static_cast<std::uint64_t>(st.st_size),
                       static_cast<std::uint64_t>(st.st_blocks) * 512, S_ISREG(st.st_mode),
                       S_ISDIR(st.st_mode)});
        errno = 0;
    }
    if (errno != 0) return fail_errno("list folder");
    std::sort(out.begin(), out.end(), [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
    return out;
}

Result<Fd> open_regular(const std::string& path) {
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) return fail_errno("open for reading");
    struct stat st{};
    if (::fstat(fd.get(), &st) != 0) return fail_errno("fstat");
    if (!S_ISREG(st.st_mode)) return fail(Code::invalid, "not a regular file");
    return fd;
}

Status make_plain_dir(const std::string& path) {
    TALLY_TRY(make_dirs(path));
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) return fail_errno("lstat");
    if (!S_ISDIR(st.st_mode)) return fail(Code::denied, "a folder of the spool is a symbolic link");
    return {};
}

Result<std::uint64_t> file_bytes(int fd) {
    struct stat st{};
    if (::fstat(fd, &st) != 0) return fail_errno("fstat");
    return static_cast<std::uint64_t>(st.st_size);
}

Status pread_all(int fd, std::uint8_t* out, std::uint64_t bytes, std::uint64_t offset) {
    while (bytes > 0) {
        const ssize_t n = ::pread(fd, out, bytes, static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("pread", -1, offset);
        if (n == 0) return fail(Code::truncated, "file ends early", offset);
        out += n;
        bytes -= static_cast<std::uint64_t>(n);
        offset += static_cast<std::uint64_t>(n);
    }
    return {};
}

Status pwrite_all(int fd, ByteView bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("pwrite", -1, offset);
        if (n == 0) return fail(Code::io, "pwrite wrote nothing", offset);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        offset += static_cast<std::uint64_t>(n);
    }
    return {};
}

}  // namespace tally::spool
