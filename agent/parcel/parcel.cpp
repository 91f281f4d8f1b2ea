// SPDX-License-Identifier: Apache-2.0
#include "agent/parcel/parcel.hpp"

#include <zstd.h>

#include <cstring>

#include "agent/base/hash.hpp"

namespace tally::parcel {

namespace {

constexpr std::size_t pad8(std::size_t n) { return (n + 7) & ~std::size_t{7}; }
constexpr std::size_t hashed_from = offsetof(ParcelHeader, total_bytes);
constexpr std::size_t compress_bytes_min = 128;

struct CompressContext {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    CompressContext() { TALLY_ASSERT(context != nullptr); }
    ~CompressContext() { ZSTD_freeCCtx(context); }
    CompressContext(const CompressContext&) = delete;
    CompressContext& operator=(const CompressContext&) = delete;
};

struct DecompressContext {
    ZSTD_DCtx* context = ZSTD_createDCtx();
    DecompressContext() { TALLY_ASSERT(context != nullptr); }
    ~DecompressContext() { ZSTD_freeDCtx(context); }
    DecompressContext(const DecompressContext&) = delete;
    DecompressContext& operator=(const DecompressContext&) = delete;
};

// Appends one zstd frame of `body`, or nothing when it would not be smaller.
std::size_t compress_into(ByteView body, Bytes& out) {
    thread_local CompressContext zstd;
    const std::size_t at = out.size();
    out.resize(at + ZSTD_compressBound(body.size()));
    const std::size_t n =
        ZSTD_compressCCtx(zstd.context, out.data() + at, out.size() - at, body.data(), body.size(), 1);
    const bool pays = ZSTD_isError(n) == 0 && n < body.size();
    out.resize(at + (pays ? n : 0));
    return pays ? n : 0;
}

Status check_entry(const SectionEntry& e, std::uint64_t& free_from, std::uint64_t total) {
    const std::uint64_t end = std::uint64_t{e.offset} + e.bytes;
    if (e.offset % 8 != 0 || e.offset < free_from || end > total)
        return fail(Code::corrupt, "place of a section", e.offset);
    if (e.raw_bytes > section_raw_bytes_max) return fail(Code::too_big, "raw size of a section", e.raw_bytes);
    if ((e.flags & section_zstd) == 0 && e.raw_bytes != e.bytes)
        return fail(Code::corrupt, "size of a section", e.bytes);
    free_from = end;
    return {};
}

// Everything that can be said before the checksum is known to fit.
Status check_size(const ParcelHeader& h, std::size_t bytes) {
    if (h.magic != magic) return fail(Code::corrupt, "magic of a parcel");
    if (h.version != version) return fail(Code::unsupported, "version of a parcel", h.version);
    if (h.header_bytes != sizeof h) return fail(Code::corrupt, "header size of a parcel", h.header_bytes);
    if (h.total_bytes > parcel_bytes_max) return fail(Code::too_big, "parcel", h.total_bytes);
    if (h.total_bytes > bytes) return fail(Code::truncated, "parcel", bytes);
    if (h.total_bytes < bytes) return fail(Code::corrupt, "bytes behind a parcel", bytes);
    return {};
}

Status check_header(const ParcelHeader& h) {
    if (h.sections > sections_max || h.table_bytes != h.sections * sizeof(SectionEntry))
        return fail(Code::corrupt, "section table of a parcel", h.sections);
    if (h.table_bytes > h.total_bytes - sizeof h) return fail(Code::truncated, "section table of a parcel");
    if (h.flags != 0) return fail(Code::unsupported, "flags of a parcel", h.flags);
    if (h.lane >= lane_count) return fail(Code::corrupt, "lane of a parcel", h.lane);
    if (h.start == 0 || h.seq == 0 || h.group == 0) return fail(Code::corrupt, "identity of a parcel");
    return {};
}

}  // namespace

void ParcelBuilder::add(SectionKind kind, ByteView body, bool compress) {
    TALLY_ASSERT(body.size() <= section_raw_bytes_max && entries_.size() < sections_max);
    SectionEntry e{};
    e.kind = static_cast<std::uint16_t>(kind);
    e.offset = static_cast<std::uint32_t>(bodies_.size());  // finish() adds what comes before the bodies
    e.raw_bytes = static_cast<std::uint32_t>(body.size());
    std::size_t packed = 0;
    if (compress && body.size() >= compress_bytes_min) packed = compress_into(body, bodies_);
    if (packed != 0) {
        e.flags = section_zstd;
    } else {
        bodies_.insert(bodies_.end(), body.begin(), body.end());
    }
    e.bytes = static_cast<std::uint32_t>(bodies_.size() - e.offset);
    e.xxh3 = xxh3(ByteView(bodies_).subspan(e.offset));
    bodies_.resize(pad8(bodies_.size()));
    entries_.push_back(e);
}

std::size_t ParcelBuilder::bytes() const {
    return sizeof(ParcelHeader) + entries_.size() * sizeof(SectionEntry) + bodies_.size();
}

Bytes ParcelBuilder::finish(Lane lane, std::uint64_t points, std::int64_t created_ns) {
    TALLY_ASSERT(bytes() <= parcel_bytes_max);
    ParcelHeader h{};
    h.magic = magic;
    h.version = version;
    h.header_bytes = sizeof h;
    h.total_bytes = static_cast<std::uint32_t>(bytes());
    h.sections = static_cast<std::uint16_t>(entries_.size());
    h.lane = static_cast<std::uint8_t>(lane);
    h.created_ns = created_ns;
    h.points = points;
    h.table_bytes = static_cast<std::uint32_t>(entries_.size() * sizeof(SectionEntry));
    Bytes out;
    out.reserve(bytes());
    ByteWriter w(out);
    w.put(h);
    for (SectionEntry e : entries_) {
        e.offset += static_cast<std::uint32_t>(sizeof h) + h.table_bytes;
        w.put(e);
    }
    w.bytes(bodies_);
    entries_.clear();
    bodies_.clear();
    return out;
}

void stamp(Bytes& parcel, const Identity& identity) {
    TALLY_ASSERT(parcel.size() >= sizeof(ParcelHeader));
    ParcelHeader h;
    std::memcpy(&h, parcel.data(), sizeof h);
    TALLY_ASSERT(h.magic == magic && h.total_bytes == parcel.size());
    TALLY_ASSERT(h.lane == static_cast<std::uint8_t>(identity.id.lane));
    h.start = raw(identity.id.start);
    h.seq = raw(identity.id.seq);
    h.group = raw(identity.group);
    std::memcpy(h.spool, identity.spool.bytes.data(), sizeof h.spool);
    std::memcpy(parcel.data(), &h, sizeof h);
    h.xxh3 = xxh3(ByteView(parcel).subspan(hashed_from));
    std::memcpy(parcel.data() + offsetof(ParcelHeader, xxh3), &h.xxh3, sizeof h.xxh3);
}

Result<Peeked> peek(ByteView bytes) {
    Peeked out;
    ParcelHeader& h = out.header;
    if (bytes.size() < sizeof h) return fail(Code::truncated, "header of a parcel", bytes.size());
    std::memcpy(&h, bytes.data(), sizeof h);
    TALLY_TRY(check_size(h, bytes.size()));
    if (h.total_bytes < sizeof h) return fail(Code::corrupt, "size of a parcel", h.total_bytes);
    if (xxh3(bytes.subspan(hashed_from)) != h.xxh3) return fail(Code::corrupt, "checksum of a parcel");
    TALLY_TRY(check_header(h));
    out.sections.resize(h.sections);
    if (h.sections != 0) std::memcpy(out.sections.data(), bytes.data() + sizeof h, h.table_bytes);
    std::uint64_t free_from = sizeof h + h.table_bytes;
    for (const SectionEntry& e : out.sections) TALLY_TRY(check_entry(e, free_from, h.total_bytes));
    std::memcpy(out.identity.spool.bytes.data(), h.spool, sizeof h.spool);
    out.identity.id = {StartId{h.start}, static_cast<Lane>(h.lane), Seq{h.seq}};
    out.identity.group = GroupNo{h.group};
    return out;
}

Result<ParcelView> ParcelView::open(ByteView bytes) {
    auto peeked = peek(bytes);
    if (!peeked) return std::unexpected(peeked.error());
    ParcelView view;
    view.bytes_ = bytes;
    view.peeked_ = std::move(*peeked);
    return view;
}

Result<ByteView> ParcelView::body(std::size_t i, Bytes& scratch) const {
    TALLY_ASSERT(i < peeked_.sections.size());
    const SectionEntry& e = peeked_.sections[i];
    if ((e.flags & ~(section_optional | section_zstd)) != 0)
        return fail(Code::unsupported, "flags of a section", e.flags);
    const ByteView stored = bytes_.subspan(e.offset, e.bytes);
    if (xxh3(stored) != e.xxh3) return fail(Code::corrupt, "checksum of a section", i);
    if ((e.flags & section_zstd) == 0) return stored;
    if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != e.raw_bytes ||
        ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size())
        return fail(Code::corrupt, "raw size of a section", i);
    thread_local DecompressContext zstd;
    scratch.resize(e.raw_bytes);
    const std::size_t n = ZSTD_decompressDCtx(zstd.context, scratch.data(), scratch.size(), stored.data(), stored.size());
    if (n != e.raw_bytes) return fail(Code::corrupt, "content of a section", i);
    return ByteView(scratch);
}

}  // namespace tally::parcel
