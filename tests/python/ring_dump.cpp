// SPDX-License-Identifier: Apache-2.0
//
// What  ring_dump SOCKET [USER_BYTES_MAX]: serves the attach socket, commits every record at once to all levels, prints it as
//       JSON with the values in hex. Ends when stdin does. Prints {"ready": true} first.

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <list>

#include "agent/base/clock.hpp"
#include "agent/ring/attach.hpp"
#include "agent/ring/consumer.hpp"
#include "agent/ring/validate.hpp"

using namespace tally;
using namespace tally::ring;

namespace {

struct Served {
    Offered offered;
    Consumer consumer;
    std::uint64_t drops_shown = 0;
};

template <class T>
T at(ByteView b, std::uint64_t offset) {
    T v;
    std::memcpy(&v, b.data() + offset, sizeof v);
    return v;
}

void hex(ByteView b) {
    for (const std::uint8_t byte : b) std::printf("%02x", byte);
}

void quoted(std::string_view s) {
    std::putchar('"');
    for (const char c : s) {
        if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) std::printf("\\u%04x", static_cast<unsigned>(c));
        else std::putchar(c);
    }
    std::putchar('"');
}

void print_scalars(ByteView body, const Registry& registry) {
    const auto head = at<ScalarBody>(body, 0);
    std::printf(", \"step\": %lld, \"values\": [", static_cast<long long>(head.step));
    for (std::uint32_t i = 0; i < head.count; ++i) {
        const auto v = at<ScalarValue>(body, sizeof head + i * sizeof(ScalarValue));
        const SeriesInfo& s = registry.series()[v.series];
        std::printf("%s[", i == 0 ? "" : ", ");
        quoted(s.name);
        std::printf(", \"%s\", \"%016llx\"]", dtype_name(s.dtype), static_cast<unsigned long long>(v.bits));
    }
    std::printf("]");
}

void print_frame(ByteView body, const BlockInfo& block) {
    const auto f = at<FrameBody>(body, 0);
    const FrameShape shape = frame_shape(f, block);
    std::printf(", \"block\": %u, \"env_first\": %u, \"step\": %lld, \"stride\": %lld, \"steps\": %u, \"metric_first\": %u, \"rows\": ",
                f.block, block.env_first, static_cast<long long>(f.step_first), static_cast<long long>(f.step_stride), f.steps,
                f.metric_first);
    if (f.rows_listed == 0) std::printf("null");
    else std::printf("[");
    for (std::uint32_t i = 0; i < f.rows; ++i) std::printf("%s%u", i == 0 ? "" : ", ", at<std::uint32_t>(body, sizeof f + i * 4));
    if (f.rows_listed != 0) std::printf("]");
    std::printf(", \"values\": [");
    std::uint64_t from = shape.values_at;
    for (std::uint32_t s = 0; s < f.steps; ++s) {
        for (std::uint32_t m = 0; m < f.metrics; ++m) {
            const MetricInfo& metric = block.metrics[f.metric_first + m];
            const std::uint64_t bytes = std::uint64_t{shape.n} * dtype_width(metric.dtype);
            std::printf("%s[", s + m == 0 ? "" : ", ");
            quoted(metric.name);
            std::printf(", \"%s\", \"", dtype_name(metric.dtype));
            hex(body.subspan(from, bytes));
            std::printf("\"]");
            from += (bytes + 7) & ~std::uint64_t{7};
        }
    }
    std::printf("]");
}

void print_event(ByteView body) {
    const auto e = at<EventBody>(body, 0);
    std::printf(", \"event\": [");
    quoted(as_text(body.subspan(8, e.kind_bytes)));
    std::printf(", ");
    quoted(as_text(body.subspan(8U + e.kind_bytes, e.key_bytes)));
    std::printf(", ");
    quoted(as_text(body.subspan(8U + e.kind_bytes + e.key_bytes, e.text_bytes)));
    std::printf("]");
}

void print_episodes(ByteView body) {
    const auto e = at<EpisodeBody>(body, 0);
    const std::uint64_t lists = sizeof e + ((std::uint64_t{e.count} * 4 + 7) & ~std::uint64_t{7});
    std::printf(", \"step\": %lld, \"episodes\": [", static_cast<long long>(e.step));
    for (std::uint64_t i = 0; i < e.count; ++i)
        std::printf("%s[%u, %lld, %lld, %.17g]", i == 0 ? "" : ", ", at<std::uint32_t>(body, sizeof e + i * 4),
                    static_cast<long long>(at<std::int64_t>(body, lists + i * 8)),
                    static_cast<long long>(at<std::int64_t>(body, lists + (e.count + i) * 8)),
                    at<double>(body, lists + (2ULL * e.count + i) * 8));
    std::printf("]");
}

void print_record(const Served& s, const RecordView& r) {
    const Registry& registry = s.consumer.registry();
    std::printf("{\"producer\": \"%s\", \"run\": \"%s\", \"pid\": %d, \"kind\": %d, \"number\": %llu, \"attempt\": %u, \"time\": %lld, \"rl_step\": ",
                s.offered.ring.producer_uuid().text().c_str(), registry.producer()->run.c_str(), s.offered.pid,
                static_cast<int>(r.header.kind), static_cast<unsigned long long>(r.header.number), r.header.attempt,
                static_cast<long long>(r.header.time_ns));
    if ((r.header.flags & flag_has_rl_step) != 0) std::printf("%lld", static_cast<long long>(r.header.rl_step));
    else std::printf("null");
    if (r.header.kind == RecordKind::scalars) print_scalars(r.body, registry);
    if (r.header.kind == RecordKind::frame) print_frame(r.body, *registry.block());
    if (r.header.kind == RecordKind::event) print_event(r.body);
    if (r.header.kind == RecordKind::episodes) print_episodes(r.body);
    if (r.header.kind == RecordKind::rewind)
        std::printf(", \"fork_step\": %lld", static_cast<long long>(at<RewindBody>(r.body, 0).fork_step));
    if (r.header.kind == RecordKind::close) std::printf(", \"exit_code\": %d", at<CloseBody>(r.body, 0).exit_code);
    std::printf("}\n");
}

void drain(Served& s, Bytes& scratch) {
    std::uint64_t end = 0;
    for (;;) {
        const auto record = s.consumer.next(scratch);
        if (!record) std::fprintf(stderr, "fault: %s\n", record.error().text().c_str());
        if (!record || !record->has_value()) break;
        print_record(s, **record);
        end = (*record)->end;
    }
    if (s.consumer.dropped_points() != s.drops_shown) {
        s.drops_shown = s.consumer.dropped_points();
        std::printf("{\"kind\": -1, \"dropped\": %llu}\n", static_cast<unsigned long long>(s.drops_shown));
    }
    if (end == 0) return;
    std::fflush(stdout);
    s.consumer.set_tail(end);
    s.consumer.set_received(end);
    s.consumer.set_stored(end);
    s.consumer.wake_waiters();
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (argc > 2) options.user_bytes_max = std::strtoull(argv[2], nullptr, 10);
    auto server = AttachServer::open(argc > 1 ? argv[1] : "", options);
    if (!server) {
        std::fprintf(stderr, "%s\n", server.error().text().c_str());
        return 1;
    }
    std::printf("{\"kind\": 0, \"ready\": true}\n");
    std::fflush(stdout);
    std::list<Served> rings;
    Bytes scratch;
    for (bool open = true; open;) {
        pollfd in{STDIN_FILENO, POLLIN, 0};
        char c = 0;
        if (::poll(&in, 1, 2) > 0) open = ::read(STDIN_FILENO, &c, 1) > 0;
        for (AttachEvent& event : server->poll(monotonic_ns())) {
            auto* offered = std::get_if<Offered>(&event);
            if (offered == nullptr) continue;
            auto consumer = Consumer::open_at_tail(offered->ring);
            if (!consumer) {
                server->refuse(offered->connection, offered->cookie, Refusal::identity, consumer.error().text());
                continue;
            }
            server->accept(offered->connection, offered->cookie);
            rings.push_back({std::move(*offered), std::move(*consumer)});
        }
        for (Served& s : rings) drain(s, scratch);
    }
    return 0;
}
