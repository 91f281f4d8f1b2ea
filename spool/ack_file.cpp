// SPDX-License-Identifier: Apache-2.0
#include "spool/ack_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "agent/base/hash.hpp"
#include "agent/base/log.hpp"
#include "spool/fault_point.hpp"
#include "spool/paths.hpp"

namespace tally::spool {

Bytes encode_acks(const AckTable& table, const Uuid& spool, std::uint64_t generation, KeepUntil keep_until) {
    Bytes out;
    ByteWriter writer(out);
    AckFileHeader header{};
    header.magic = ack_magic;
    header.version = version;
    header.generation = generation;
    header.keep_until = keep_until == KeepUntil::stored ? 1 : 0;
    std::copy(spool.bytes.begin(), spool.bytes.end(), header.spool);
    header.entries = static_cast<std::uint32_t>(table.size());
    writer.put(header);
    for (const auto& [key, sets] : table) {
        writer.put(key.first);
        writer.put(static_cast<std::uint64_t>(key.second));  // u8 lane and 7 zero bytes
        writer.put(sets.durable_group);
        writer.put(sets.durable_seq);
        writer.put(sets.receiver);
        for (const IntervalSet* set : {&sets.received, &sets.stored, &sets.lost}) set->write(writer);
    }
    writer.patch(offsetof(AckFileHeader, bytes), static_cast<std::uint32_t>(out.size()));
    writer.patch(offsetof(AckFileHeader, xxh3), xxh3(ByteView(out).subspan(24)));
    return out;
}

Result<DecodedAcks> decode_acks(ByteView file, const Uuid& spool) {
    ByteReader in(file);
    const auto header = in.get<AckFileHeader>();
    if (!in.ok()) return fail(Code::truncated, "ack file", file.size());
    if (header.magic != ack_magic || header.version != version) return fail(Code::corrupt, "ack file header");
    if (header.bytes != file.size()) return fail(Code::truncated, "ack file", file.size());
    if (header.xxh3 != xxh3(file.subspan(24))) return fail(Code::corrupt, "ack file");
    if (!std::equal(spool.bytes.begin(), spool.bytes.end(), header.spool))
        return fail(Code::conflict, "ack file of another spool");
    DecodedAcks out;
    out.generation = header.generation;
    out.keep_until = header.keep_until == 0 ? KeepUntil::received : KeepUntil::stored;
    for (std::uint32_t i = 0; i < header.entries; ++i) {
        const auto start = in.get<std::uint64_t>();
        const auto lane = in.get<std::uint64_t>();
        AckSets sets;
        sets.durable_group = in.get<std::uint64_t>();
        sets.durable_seq = in.get<std::uint64_t>();
        sets.receiver = in.get<Uuid>();
        for (IntervalSet* set : {&sets.received, &sets.stored, &sets.lost}) {
            auto read = IntervalSet::read(in);
            if (!read) return std::unexpected(read.error());
            *set = std::move(*read);
        }
        if (!in.ok() || lane >= lane_count) return fail(Code::corrupt, "ack file entry", i);
        out.table[{start, static_cast<Lane>(lane)}] = std::move(sets);
    }
    return out;
}

AckTable AckFile::load() {
    AckTable out;
    unsigned readable = 0;
    bool absent[2] = {};
    for (unsigned slot = 0; slot < 2; ++slot) {
        auto fd = open_regular(slot_path(slot));
        absent[slot] = !fd && fd.error().code == Code::not_found;
        if (!fd) continue;
        const auto bytes = file_bytes(fd->get());
        if (!bytes || *bytes > slot_bytes_max) continue;
        bytes_[slot] = *bytes;
        Bytes file(*bytes);
        if (!pread_all(fd->get(), file.data(), file.size(), 0)) continue;
        auto decoded = decode_acks(file, spool_);
        if (!decoded) {
            log_warn("spool.ack_slot_unreadable", {{"slot", slot}, {"error", decoded.error()}});
            continue;
        }
        ++readable;
        if (decoded->generation < generation_) continue;
        generation_ = decoded->generation;
        keep_until_ = decoded->keep_until;
        next_slot_ = 1 - slot;
        out = std::move(decoded->table);
    }
    // Only a spool that saved once has one slot; only one that never saved has none.
    const bool first_save = readable == 1 && generation_ == 1 && (absent[0] || absent[1]);
    certain_ = readable == 2 || first_save || (absent[0] && absent[1]);
    return out;
}

Status AckFile::save(const AckTable& table, KeepUntil keep_until) {
    const Bytes file = encode_acks(table, spool_, generation_ + 1, keep_until);
    const std::string path = slot_path(next_slot_);
    constexpr int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
    Fd fd(::open(path.c_str(), flags));
    const bool created = !fd;
    if (!fd) {
        if (errno != ENOENT) ::unlink(path.c_str());  // a link or pipe in its place holds no acks
        fd.reset(::open(path.c_str(), flags | O_CREAT | O_EXCL, 0600));
    }
    if (!fd) return fail_errno("open ack file");
    TALLY_TRY(pwrite_all(fd.get(), file, 0));
    if (::ftruncate(fd.get(), static_cast<off_t>(file.size())) != 0) return fail_errno("truncate ack file");
    if (::fsync(fd.get()) != 0) {
        const int err = errno;
        ::unlink(path.c_str());  // its pages cannot be trusted any more; the other slot holds
        return fail_errno("fsync ack file", err);
    }
    if (created) TALLY_TRY(fsync_dir(dir_));
    fault_point("acks-written");
    bytes_[next_slot_] = file.size();
    next_slot_ = 1 - next_slot_;
    ++generation_;
    return {};
}

}  // namespace tally::spool
