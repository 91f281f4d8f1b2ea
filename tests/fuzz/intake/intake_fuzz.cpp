// SPDX-License-Identifier: Apache-2.0
// A series of hostile records into one block ring and one scalar ring: byte 0 kind and ring, byte 1 attempt, u16 length,
// body. Whatever is accepted must come out as parcels that open.
#include <cstring>

#include "agent/intake/intake.hpp"

using namespace tally;
using namespace tally::intake;

namespace {

RingInfo info(std::uint8_t n) {
    RingInfo out;
    out.ring.bytes.fill(n);
    out.producer.bytes.fill(n);
    out.run.assign("run");
    return out;
}

void check(Batch& batch) {
    std::uint64_t seq = 0;
    for (DraftParcel& p : batch.parcels) {
        parcel::stamp(p.bytes, {Uuid{}, {StartId{1}, p.lane, Seq{++seq}}, GroupNo{1}});
        const auto view = parcel::ParcelView::open(p.bytes);
        TALLY_ASSERT(view);
        Bytes scratch;
        for (std::size_t i = 0; i < view->sections().size(); ++i) {
            const auto body = view->body(i, scratch);
            TALLY_ASSERT(body);
            const auto kind = static_cast<parcel::SectionKind>(view->sections()[i].kind);
            if (kind == parcel::SectionKind::frames) TALLY_ASSERT(parcel::read_frames(*body));
            if (kind == parcel::SectionKind::scalars) TALLY_ASSERT(parcel::read_scalars(*body));
            if (kind == parcel::SectionKind::ledger) TALLY_ASSERT(parcel::read_ledger(*body));
            if (kind == parcel::SectionKind::stats) TALLY_ASSERT(parcel::read_stats(*body));
            if (kind == parcel::SectionKind::episodes) TALLY_ASSERT(parcel::read_episodes(*body));
            if (kind == parcel::SectionKind::events) TALLY_ASSERT(parcel::read_events(*body));
            if (kind == parcel::SectionKind::producers) TALLY_ASSERT(parcel::read_producers(*body));
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Options options{};
    Intake intake(options);
    RingInfo block = info(1);
    block.kind = ring::RingKind::block;
    block.block = {1, 5, 3, {{Dtype::f16, "a"}, {Dtype::boolean, "b"}, {Dtype::f64, "c"}}};
    RingInfo scalar = info(2);
    scalar.series = {{Dtype::u8, "a"}, {Dtype::boolean, "b"}, {Dtype::i64, "c"}};
    const auto a = intake.attach(block, 1);
    const auto b = intake.attach(scalar, 1);
    TALLY_ASSERT(a && b);
    ByteReader in({data, size});
    std::uint64_t position = 0;
    while (in.left() >= 4) {
        ring::RecordHeader h{};
        const auto kind = in.get<std::uint8_t>();
        h.kind = static_cast<ring::RecordKind>(kind & 15);
        h.flags = static_cast<std::uint16_t>(kind >> 6);
        h.attempt = in.get<std::uint8_t>();
        h.number = ++position;
        const std::size_t n = std::min<std::size_t>(in.get<std::uint16_t>(), in.left());
        const RingHandle ring = (kind & 16) != 0 ? a->handle : b->handle;
        static_cast<void>(intake.record(ring, h, in.bytes(n), position * 8));
    }
    if (auto batch = intake.cut(1)) check(*batch);
    return 0;
}
