// SPDX-License-Identifier: Apache-2.0
//
// An ack file of any bytes either decodes or is refused; what decodes encodes to the same table. The checksum is put
// right first, so that the entries behind it are reached.
#include "agent/base/hash.hpp"
#include "spool/ack_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tally;
    using namespace tally::spool;
    Bytes file(data, data + size);
    Uuid uuid;
    if (file.size() >= sizeof(AckFileHeader)) {
        AckFileHeader header{};
        std::memcpy(&header, file.data(), sizeof header);
        header.magic = ack_magic;
        header.version = version;
        header.bytes = static_cast<std::uint32_t>(file.size());
        std::memcpy(header.spool, uuid.bytes.data(), 16);
        std::memcpy(file.data(), &header, sizeof header);
        const std::uint64_t sum = xxh3(ByteView(file).subspan(24));
        std::memcpy(file.data() + offsetof(AckFileHeader, xxh3), &sum, sizeof sum);
    }
    const auto decoded = decode_acks(file, uuid);
    if (!decoded) return 0;
    const auto again = decode_acks(encode_acks(decoded->table, uuid, decoded->generation), uuid);
    TALLY_ASSERT(again.has_value() && again->table == decoded->table);
    return 0;
}
