// SPDX-License-Identifier: Apache-2.0
#include "spool/walk.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "spool/record.hpp"

namespace tally::spool {

namespace {

// A window over a file that moves forward; big enough for many small records in one read.
class Window {
public:
    Window(int fd, std::uint64_t file_bytes_in) : fd_(fd), file_bytes_(file_bytes_in) {}

    // Up to `bytes` from `offset`; fewer where the file ends or cannot be read.
    ByteView at(std::uint64_t offset, std::uint64_t bytes) {
        bytes = std::min(bytes, file_bytes_ - std::min(offset, file_bytes_));
        if (offset < begin_ || offset + bytes > begin_ + data_.size()) load(offset, bytes);
        if (offset < begin_ || offset >= begin_ + data_.size()) return {};
        const std::uint64_t from = offset - begin_;
        return ByteView(data_).subspan(from, std::min<std::uint64_t>(bytes, data_.size() - from));
    }

private:
    static constexpr std::uint64_t read_bytes = 64U << 10;

    void load(std::uint64_t offset, std::uint64_t bytes) {
        begin_ = offset;
        data_.resize(std::min(std::max(bytes, read_bytes), file_bytes_ - offset));
        if (pread_all(fd_, data_.data(), data_.size(), offset)) return;
        // One bad block must not hide its neighbours: take this block alone, or nothing.
        data_.resize(
            std::min<std::uint64_t>(std::max<std::uint64_t>(bytes, block_bytes), file_bytes_ - offset));
        if (!pread_all(fd_, data_.data(), data_.size(), offset)) data_.clear();
    }

    int fd_;
    std::uint64_t file_bytes_;
    std::uint64_t begin_ = 0;
    Bytes data_;
};

bool all_zero(ByteView bytes) {
    return bytes.front() == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

// A record head at `offset`, whatever its length, if it is intact.
bool head_at(Window& window, std::uint64_t offset, RecordHeader& out, ByteView& head) {
    const ByteView block = window.at(offset, block_bytes);
    if (block.size() < sizeof out) return false;
    std::memcpy(&out, block.data(), sizeof out);
    if (out.magic != record_magic || out.cursor_bytes > header_bytes_max) return false;
    head = window.at(offset, sizeof out + std::uint64_t{out.cursor_bytes});
    return head_intact(head, out);
}

void end_bad_range(Walk& walk, BadRange& open) {
    if (open.bytes == 0) return;
    walk.bad_bytes += open.bytes;
    walk.bad.push_back(open);
    open = {};
}

}  // namespace

Result<Walk> walk_segment(const std::string& path, const SegmentHeader& header, bool sync_first) {
    auto fd = open_regular(path);
    if (!fd) return std::unexpected(fd.error());
    // What is judged must be what the disk has: after a kill the cache may be ahead of it.
    if (sync_first && ::fsync(fd->get()) != 0) return fail_errno("fsync before reading");
    Walk walk;
    Window window(fd->get(), header.segment_bytes);
    BadRange bad;
    std::uint64_t at = header.header_bytes;
    while (at + block_bytes <= header.segment_bytes) {
        RecordHeader record{};
        ByteView head;
        if (head_at(window, at, record, head) && head_fits(record, header, at)) {
            end_bad_range(walk, bad);
            const ByteView cursors = head.subspan(sizeof record, record.cursor_bytes);
            walk.records.push_back({record, Bytes(cursors.begin(), cursors.end())});
            at += record_bytes(record.cursor_bytes, record.payload_bytes);
            continue;
        }
        const ByteView block = window.at(at, block_bytes);
        if (block.empty() || !all_zero(block)) {
            if (bad.bytes == 0) bad.offset = at;
            bad.bytes = at + block_bytes - bad.offset;
        }
        at += block_bytes;
    }
    end_bad_range(walk, bad);
    return walk;
}

std::vector<RecordHeader> plausible_records(int fd, std::uint64_t bytes) {
    std::vector<RecordHeader> out;
    Window window(fd, bytes);
    for (std::uint64_t at = 0; at + block_bytes <= bytes; at += block_bytes) {
        RecordHeader record{};
        ByteView head;
        if (head_at(window, at, record, head)) out.push_back(record);
    }
    return out;
}

}  // namespace tally::spool
