// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Names of files in a spool directory, and opening them without following links.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/fd.hpp"
#include "agent/base/types.hpp"

namespace tally::spool {

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

std::string hex16(std::uint64_t value);
std::string lane_dir(const std::string& dir, Lane lane);
std::string segment_name(std::uint64_t number);                            // "000000000000001f.seg"
std::optional<std::uint64_t> parse_segment_name(std::string_view name);    // nothing when it is another file's
std::string parked_name(const ParcelId& id);                               // "<start>-<lane>-<seq>"
std::optional<ParcelId> parse_parked_name(std::string_view name);          // with ".parcel"

struct DirEntry {
    std::string name;
    std::uint64_t bytes = 0;
    std::uint64_t disk_bytes = 0;  // what it occupies
    bool regular = false;
    bool folder = false;
};
// All entries but "." and "..", sorted by name. A missing folder is empty.
Result<std::vector<DirEntry>> list_dir(const std::string& dir);

// Opens a regular file for reading; links, pipes and the like are refused.
Result<Fd> open_regular(const std::string& path);
// Makes the folder if absent; refuses one that is a link or no folder.
Status make_plain_dir(const std::string& path);
Result<std::uint64_t> file_bytes(int fd);
// Reads exactly `bytes` at `offset`; truncated when the file ends before.
Status pread_all(int fd, std::uint8_t* out, std::uint64_t bytes, std::uint64_t offset);
Status pwrite_all(int fd, ByteView bytes, std::uint64_t offset);

}  // namespace tally::spool
