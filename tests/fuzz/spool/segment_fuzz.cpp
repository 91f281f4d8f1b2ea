// SPDX-License-Identifier: Apache-2.0
//
// A segment file of any bytes: walked, scanned and opened without a crash. Checksums of the header and of the first
// records are put right, so that what they guard is reached.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "agent/base/fd.hpp"
#include "agent/base/hash.hpp"
#include "agent/base/log.hpp"
#include "spool/paths.hpp"
#include "spool/record.hpp"
#include "spool/scan.hpp"
#include "spool/segment.hpp"

namespace {

using namespace tally;
using namespace tally::spool;

template <class T>
T at(const Bytes& file, std::size_t offset) {
    T value{};
    std::memcpy(&value, file.data() + offset, sizeof value);
    return value;
}
template <class T>
void put(Bytes& file, std::size_t offset, const T& value) {
    std::memcpy(file.data() + offset, &value, sizeof value);
}

// Bytes of the input become fields; what has to agree is made to agree.
Bytes make_segment(const std::uint8_t* data, std::size_t size) {
    Bytes file(4096 * 8);
    for (std::size_t block = 0, from = 0; block < 8 && from < size; ++block, from += 160) {
        std::memcpy(file.data() + block * 4096, data + from, std::min<std::size_t>(160, size - from));
    }
    auto header = at<SegmentHeader>(file, 0);
    header.magic = segment_magic;
    header.version = version;
    header.header_bytes = 4096;
    header.segment_number = 1;
    header.segment_bytes = file.size();
    header.lane = 0;
    header.starts %= 3;
    header.cursor_bytes %= 64;
    header.start |= 1;
    std::memset(header.spool, 7, sizeof header.spool);
    put(file, 0, header);
    put(file, offsetof(SegmentHeader, xxh3), xxh3(ByteView(file).subspan(24, 4096 - 24)));
    for (std::size_t block = 1; block < 8; ++block) {
        const std::size_t offset = block * 4096;
        auto record = at<RecordHeader>(file, offset);
        if (record.magic == 0) continue;
        record.magic = record_magic;
        record.version = static_cast<std::uint16_t>(version);
        record.header_bytes = sizeof(RecordHeader);
        record.salt = header.salt;
        record.start = header.start;
        record.segment_number = 1;
        record.offset = offset;
        record.lane = 0;
        record.cursor_bytes %= 5000;
        record.payload_bytes = 1 + record.payload_bytes % 9000;
        record.total = 1 + record.total % 4;
        record.index %= record.total;
        put(file, offset, record);
        const std::size_t end = std::min(file.size(), offset + sizeof record + record.cursor_bytes);
        put(file, offset + 8, xxh3(ByteView(file).subspan(offset + 16, end - offset - 16)));
    }
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::string dir = [] {
        log_setup(LogLevel::error, false);
        std::string text = std::string(std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") +
                           "/tally-fuzz-XXXXXX";
        TALLY_ASSERT(::mkdtemp(text.data()) != nullptr);
        static const std::string kept = text;
        std::atexit([] { std::filesystem::remove_all(kept); });
        return text;
    }();
    for (const char* sub : {"live", "bulk", "file"}) ::mkdir((dir + "/" + sub).c_str(), 0700);
    const Bytes file = make_segment(data, size);
    const Fd fd(::open((dir + "/live/" + segment_name(1)).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    TALLY_ASSERT(fd && write_all(fd.get(), file));
    std::uint64_t records = 0;
    const auto summary = scan(dir, [&](const ScannedRecord&) { return ++records < 100; });
    TALLY_ASSERT(!summary || summary->records == records);
    return 0;
}
