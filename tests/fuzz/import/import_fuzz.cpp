// SPDX-License-Identifier: Apache-2.0
//
// What  Hostile bytes at every log reader: no crash, it ends, and cutting the bytes does not change the rows.

#include <cstdint>

#include "agent/base/result.hpp"
#include "tests/lib/rows_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tally::import;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const Opened once = open_reader(bytes, true);
    if (!once.reader) {
        TALLY_ASSERT(!once.why.empty());
        return 0;
    }
    const Opened cut = open_reader(bytes, true);
    const RowsText all = read_in_cuts(*once.reader, bytes, size + 1);
    const RowsText pieces = read_in_cuts(*cut.reader, bytes, size / 3 + 1);
    TALLY_ASSERT(all.lines == pieces.lines);
    TALLY_ASSERT(once.reader->broken() == cut.reader->broken());
    return 0;
}
