// SPDX-License-Identifier: Apache-2.0
//
// Bytes as the content of a ring: one byte of choices, registry length, then registry and data. Whatever they are, the
// consumer ends with records or a fault, and its position never leaves what was published.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "agent/ring/consumer.hpp"
#include "agent/ring/create.hpp"

using namespace tally;
using namespace tally::ring;

namespace {

struct Target {
    explicit Target(RingKind kind) {
        CreateRequest request;
        request.kind = kind;
        request.data_bytes = data_bytes_min;
        request.registry_bytes = 4096;
        request.ring_uuid[0] = request.producer_uuid[0] = 1;
        int fd = -1;
        if (create_ring(request, fd, pages) != 0) std::abort();
        auto opened = Mapping::open(Fd(fd), ::getuid());
        if (!opened) std::abort();
        mapping.emplace(std::move(*opened));
    }
    Pages pages;
    std::optional<Mapping> mapping;
};

void fill(const Target& t, ByteView in) {
    std::memset(t.pages.data, 0, t.pages.data_bytes);
    std::memset(t.pages.registry, 0, t.pages.registry_bytes);
    std::memset(static_cast<void*>(&t.pages.control->producer), 0, sizeof(ProducerPart));
    std::memset(static_cast<void*>(&t.pages.control->consumer), 0, sizeof(ConsumerPart));
    ByteReader reader(in);
    const auto registry_used = reader.get<std::uint16_t>();
    const ByteView registry = reader.bytes(std::min<std::size_t>({registry_used, reader.left(), 4096}));
    const ByteView data = reader.bytes(std::min<std::size_t>(reader.left(), data_bytes_min));
    if (!registry.empty()) std::memcpy(t.pages.registry, registry.data(), registry.size());
    if (!data.empty()) std::memcpy(t.pages.data, data.data(), data.size());
    t.pages.control->producer.registry_used.store(registry_used);
    t.pages.control->producer.head.store((data.size() + 7) / 8 * 8);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const Target scalar(RingKind::scalar);
    static const Target block(RingKind::block);
    if (size < 3) return 0;
    const Target& t = (bytes[0] & 1) != 0 ? block : scalar;
    fill(t, ByteView(bytes + 1, size - 1));
    auto consumer = Consumer::open(*t.mapping, 0, 0, 0);
    if (!consumer) return 0;
    Bytes scratch;
    for (;;) {
        const auto record = consumer->next(scratch);
        if (!record || !record->has_value()) break;
        if ((*record)->body.size() > scratch.size() || (*record)->end > t.pages.control->producer.head.load()) std::abort();
    }
    if (consumer->position() > t.pages.control->producer.head.load()) std::abort();
    return 0;
}
