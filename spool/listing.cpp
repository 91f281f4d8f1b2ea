// SPDX-License-Identifier: Apache-2.0
#include "spool/listing.hpp"

#include <algorithm>

#include "spool/paths.hpp"

namespace tally::spool {

namespace {

constexpr Lane lanes[] = {Lane::live, Lane::bulk, Lane::file};
constexpr std::string_view id_prefix = "tallyman-spool 1\n";

Result<FoundSegment> read_found(Lane lane, std::uint64_t number, const std::string& path) {
    auto fd = open_regular(path);
    if (!fd) return std::unexpected(fd.error());
    auto header = read_segment_header(fd->get(), lane, number, false);
    if (!header) return std::unexpected(header.error());
    return FoundSegment{lane, number, path, header->fixed, std::move(header->starts)};
}

Status list_lane(const std::string& dir, Lane lane, const std::optional<Uuid>& spool, Listing& out) {
    const std::string folder = lane_dir(dir, lane);
    auto entries = list_dir(folder);
    if (!entries) return std::unexpected(entries.error());
    const auto at = static_cast<std::size_t>(lane);
    for (const DirEntry& entry : *entries) {
        if (entry.folder) continue;  // not ours, and not to be moved about
        const std::string path = folder + "/" + entry.name;
        const auto number = parse_segment_name(entry.name);
        if (number) out.number_highest[at] = std::max(out.number_highest[at], *number);
        if (number && entry.regular) {
            auto found = read_found(lane, *number, path);
            if (!found && found.error().code == Code::not_found) continue;  // deleted meanwhile
            if (found &&
                (!spool || std::equal(spool->bytes.begin(), spool->bytes.end(), found->header.spool))) {
                out.chain[at].push_back(std::move(*found));
                continue;
            }
        }
        out.bad.push_back({lane, number.value_or(0), path, entry.bytes, entry.regular});
    }
    return {};
}

// quarantine/<lane>-<number>.seg[...]: numbers are not used again.
void count_quarantined(const std::string& dir, Listing& out) {
    const auto entries = list_dir(dir + "/quarantine");
    if (!entries) return;
    for (const DirEntry& entry : *entries) {
        for (const Lane lane : lanes) {
            const std::string prefix = std::string(lane_name(lane)) + "-";
            if (!entry.name.starts_with(prefix) || entry.name.size() < prefix.size() + 20) continue;
            const auto number = parse_segment_name(std::string_view(entry.name).substr(prefix.size(), 20));
            auto& highest = out.number_highest[static_cast<std::size_t>(lane)];
            if (number) highest = std::max(highest, *number);
        }
    }
}

}  // namespace

Result<Listing> list_segments(const std::string& dir, const std::optional<Uuid>& spool) {
    Listing out;
    for (const Lane lane : lanes) TALLY_TRY(list_lane(dir, lane, spool, out));
    count_quarantined(dir, out);
    return out;
}

std::optional<Uuid> read_spool_id(const std::string& dir) {
    const auto fd = open_regular(dir + "/spool.id");
    if (!fd) return std::nullopt;
    const auto bytes = file_bytes(fd->get());
    if (!bytes || *bytes != id_prefix.size() + 37) return std::nullopt;
    std::string text(*bytes, ' ');
    if (!pread_all(fd->get(), reinterpret_cast<std::uint8_t*>(text.data()), text.size(), 0))
        return std::nullopt;
    if (!text.starts_with(id_prefix) || text.back() != '\n') return std::nullopt;
    return Uuid::parse(std::string_view(text).substr(id_prefix.size(), 36));
}

std::optional<Uuid> agreed_spool(const Listing& listing) {
    std::optional<Uuid> agreed;
    for (const auto& chain : listing.chain) {
        for (const FoundSegment& segment : chain) {
            Uuid uuid;
            std::copy(std::begin(segment.header.spool), std::end(segment.header.spool), uuid.bytes.begin());
            if (agreed && *agreed != uuid) return std::nullopt;
            agreed = uuid;
        }
    }
    return agreed;
}

}  // namespace tally::spool
