// SPDX-License-Identifier: Apache-2.0
// Whole parcels. The checksum is made to fit first, so that mutations reach what lies behind it.
#include <cstring>

#include "agent/base/hash.hpp"
#include "agent/parcel/parcel.hpp"

using namespace tally;
using namespace tally::parcel;

namespace {

void read_section(std::uint16_t kind, ByteView body) {
    switch (static_cast<SectionKind>(kind)) {
        case SectionKind::frames:
            if (const auto s = read_frames(body)) {
                Bytes planes;
                for (const Tile& t : s->tiles) {
                    planes.clear();
                    static_cast<void>(decode_tile(t, s->metrics[t.header.metric].dtype, planes));
                }
            }
            return;
        case SectionKind::scalars: static_cast<void>(read_scalars(body)); return;
        case SectionKind::ledger: static_cast<void>(read_ledger(body)); return;
        case SectionKind::episodes: static_cast<void>(read_episodes(body)); return;
        case SectionKind::stats: static_cast<void>(read_stats(body)); return;
        case SectionKind::events: static_cast<void>(read_events(body)); return;
        case SectionKind::producers: static_cast<void>(read_producers(body)); return;
        case SectionKind::gaps: static_cast<void>(read_gaps(body)); return;
        case SectionKind::start: static_cast<void>(read_start(body)); return;
        case SectionKind::file: return;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Bytes parcel(data, data + size);
    if (parcel.size() >= sizeof(ParcelHeader)) {
        const std::uint64_t sum = xxh3(ByteView(parcel).subspan(16));
        std::memcpy(parcel.data() + 8, &sum, sizeof sum);
    }
    const auto view = ParcelView::open(parcel);
    if (!view) return 0;
    Bytes scratch;
    for (std::size_t i = 0; i < view->sections().size() && i < 16; ++i)
        if (const auto body = view->body(i, scratch)) read_section(view->sections()[i].kind, *body);
    return 0;
}
