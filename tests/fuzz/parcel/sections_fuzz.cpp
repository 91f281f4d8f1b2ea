// SPDX-License-Identifier: Apache-2.0
// One section body: the first byte picks the kind, the rest is the body. What is accepted is written and read again.
#include "agent/base/result.hpp"
#include "agent/parcel/sections.hpp"

using namespace tally;
using namespace tally::parcel;

namespace {

template <class Read, class Write>
void again(ByteView body, Read read, Write write) {
    const auto first = read(body);
    if (!first) return;
    Bytes bytes;
    write(*first, bytes);
    TALLY_ASSERT(read(ByteView(bytes)));
}

void frames(ByteView body) {
    const auto s = read_frames(body);
    if (!s) return;
    Bytes planes;
    for (const Tile& t : s->tiles) {
        const Dtype dtype = s->metrics[t.header.metric].dtype;
        planes.clear();
        if (!decode_tile(t, dtype, planes)) continue;
        TALLY_ASSERT(planes.size() == std::size_t{dtype_width(dtype)} * t.header.items * t.header.steps);
        Bytes out;
        append_tile(t.header, dtype, planes, out);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ByteView body(data + 1, size - 1);
    switch (data[0] % 10) {
        case 1: frames(body); break;
        case 2: again(body, read_scalars, write_scalars); break;
        case 3: again(body, read_ledger, write_ledger); break;
        case 4: again(body, read_episodes, write_episodes); break;
        case 5: again(body, read_stats, write_stats); break;
        case 6: again(body, read_events, write_events); break;
        case 7: again(body, read_producers, write_producers); break;
        case 8: again(body, read_gaps, write_gaps); break;
        case 9: again(body, read_start, write_start); break;
        default: break;
    }
    return 0;
}
