// SPDX-License-Identifier: Apache-2.0
// Case ring: frames of a million f32 from a producer process through a ring to a consumer that checks and drops them; against one
// thread copying the same frames into a buffer of the ring's size while another sums the previous one.
#include "tools/bench/ring.hpp"

#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <thread>

#include "agent/base/clock.hpp"
#include "agent/base/hash.hpp"
#include "agent/ring/consumer.hpp"
#include "agent/ring/create.hpp"
#include "agent/ring/producer.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/machine.hpp"

namespace tally::bench {

namespace {

using tally::ring::Consumer;
using tally::ring::Mapping;
using tally::ring::Pages;
using tally::ring::Producer;

std::uint64_t ring_bytes(const Shape& shape) {
    return std::bit_ceil(std::max<std::uint64_t>(ring::data_bytes_min, 4 * (shape.points() * sizeof(float) + 1024)));
}

Bytes body_of(const Shape& shape) {
    const std::vector<Bytes> one = trace_records(shape, 1, 1);
    return one.front();
}

void describe(Producer& p, const Shape& shape) {
    Bytes who;
    ByteWriter w(who);
    w.put(ring::RegistryProducer{0, INT64_MAX, 0, 1});
    for (const char* text : {"bench", "bench", "", "", "", "", ""}) w.text16(text);
    const Producer::Piece first{who.data(), who.size()};
    TALLY_ASSERT(p.append_registry(ring::RegistryKind::producer, &first, 1));
    Bytes what;
    ByteWriter b(what);
    b.put(ring::RegistryBlock{1, 0, shape.envs, shape.metrics});
    for (std::uint32_t m = 0; m < shape.metrics; ++m) {
        b.put(static_cast<std::uint8_t>(Dtype::f32));
        b.text16("m" + std::to_string(m));
    }
    const Producer::Piece second{what.data(), what.size()};
    TALLY_ASSERT(p.append_registry(ring::RegistryKind::block, &second, 1));
}

// Copies `frames` frames in; a full ring is waited for without sleeping, as a trainer at full speed would meet it.
void produce(Producer& p, const Bytes& body, std::uint64_t points, std::uint64_t frames) {
    ring::RecordMeta meta;
    meta.kind = ring::RecordKind::frame;
    meta.points = points;
    for (std::uint64_t i = 0; i < frames; ++i) {
        std::uint8_t* at = p.claim(body.size());
        for (; at == nullptr; at = p.claim(body.size())) ::usleep(20);
        std::memcpy(at, body.data(), body.size());
        meta.time_ns = wall_ns();
        p.commit(meta);
    }
    p.close();
}

struct Drained {
    std::uint64_t frames = 0;
    std::uint64_t points = 0;
    bool intact = true;  // the last frame is what was put in
    std::string error;
};

Drained consume(Consumer& c, const Bytes& body) {
    Drained out;
    Bytes scratch;
    for (;;) {
        const auto view = c.next(scratch);
        if (!view) {
            out.error = view.error().text();
            return out;
        }
        if (!*view) {
            if (c.drained()) break;
            ::usleep(20);
            continue;
        }
        ++out.frames;
        out.points += (*view)->points;
        c.set_tail((*view)->end);
    }
    out.intact = out.frames == 0 || std::memcmp(scratch.data(), body.data(), body.size()) == 0;
    return out;
}

// The same frames between two threads with nothing around them: what memory allows.
double copy_limit(const Shape& shape, std::uint64_t frames) {
    const std::size_t bytes = shape.points() * sizeof(float);
    const Bytes source = body_of(shape);
    const std::size_t slots = 4;
    const std::unique_ptr<std::uint8_t[]> buffer(new std::uint8_t[slots * bytes]());
    std::atomic<std::uint64_t> copied{0};
    std::atomic<std::uint64_t> summed{0};
    std::uint64_t sum = 0;
    const std::int64_t began = monotonic_ns();
    {
        const std::jthread writer([&] {
            for (std::uint64_t i = 0; i < frames; ++i) {
                while (i - summed.load(std::memory_order_acquire) >= slots) ::usleep(20);
                std::memcpy(buffer.get() + i % slots * bytes, source.data(), bytes);
                copied.store(i + 1, std::memory_order_release);
            }
        });
        for (std::uint64_t i = 0; i < frames; ++i) {
            while (copied.load(std::memory_order_acquire) <= i) ::usleep(20);
            const std::uint8_t* at = buffer.get() + i % slots * bytes;
            for (std::size_t k = 0; k + 8 <= bytes; k += 8) {
                std::uint64_t v;
                std::memcpy(&v, at + k, 8);
                sum += v;
            }
            summed.store(i + 1, std::memory_order_release);
        }
    }
    const double seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
    volatile std::uint64_t keep = sum;
    static_cast<void>(keep);
    return static_cast<double>(frames * shape.points()) / seconds;
}

struct OneRing {
    Fd fd;
    Pages pages;
    explicit OneRing(const Shape& shape) {
        ring::CreateRequest request;
        request.kind = ring::RingKind::block;
        request.data_bytes = ring_bytes(shape);
        request.ring_uuid[0] = 1;
        request.producer_uuid[0] = 2;
        int raw = -1;
        if (ring::create_ring(request, raw, pages) == 0) fd.reset(raw);
    }
    ~OneRing() { ring::unmap_pages(pages); }
    OneRing(const OneRing&) = delete;
    OneRing& operator=(const OneRing&) = delete;
};

}  // namespace

double ring_cost(const Shape& shape, bool quick) {
    const OneRing one(shape);
    if (one.fd.get() < 0) return 0;
    Producer p(one.pages);
    describe(p, shape);
    const auto mapping = Mapping::open(Fd(::dup(one.fd.get())), 0);
    if (!mapping) return 0;
    auto consumer = Consumer::open(*mapping, 0, 0, 0);
    if (!consumer) return 0;
    const Bytes body = body_of(shape);
    Bytes scratch;
    ring::RecordMeta meta;
    meta.kind = ring::RecordKind::frame;
    meta.points = shape.points();
    const int frames = quick ? 4 : 100;
    double began = 0;
    for (int i = -4; i < frames; ++i) {
        if (i == 0) began = thread_cpu_seconds();
        std::memcpy(p.claim(body.size()), body.data(), body.size());
        p.commit(meta);
        const auto view = consumer->next(scratch);
        if (!view || !*view) return 0;
        consumer->set_tail((*view)->end);
    }
    return (thread_cpu_seconds() - began) / static_cast<double>(frames * shape.points());
}

Lines ring(const Setting& s) {
    const Shape shape = shape_of(s.quick);
    const auto frames = s.quick ? 64U : static_cast<std::uint64_t>(s.seconds * 1000);
    const Bytes body = body_of(shape);
    const OneRing one(shape);
    if (one.fd.get() < 0) return failed("no memory for a ring");
    Line line;
    line.limit_name = "one thread copying the frames while another sums them";
    line.limit_per_s = copy_limit(shape, frames);

    {
        Producer describer(one.pages);
        describe(describer, shape);
    }
    const auto mapping = Mapping::open(Fd(::dup(one.fd.get())), 0);
    if (!mapping) return failed(mapping.error().text);
    auto consumer = Consumer::open(*mapping, 0, 0, 0);
    if (!consumer) return failed(consumer.error().text());
    const double cpu = cpu_seconds();
    const std::int64_t began = monotonic_ns();
    const pid_t child = spawn([&] {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        Pages pages;
        const std::uint32_t registry = one.pages.registry_bytes;
        if (ring::map_pages(one.fd.get(), ring_bytes(shape), registry, ring::Access::producer, pages) != 0) return 1;
        Producer p(pages);
        produce(p, body, shape.points(), frames);
        return 0;
    });
    const Drained drained = consume(*consumer, body);
    line.seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
    const int code = wait_for(child);
    if (!drained.error.empty()) return failed(drained.error);
    if (code != 0) return failed("the producer failed");
    line.cpu_s = cpu_seconds() - cpu;
    line.points = static_cast<double>(drained.points);
    line.verdict = drained.frames == frames && drained.points == frames * shape.points() && drained.intact ? "exact" : "frames are missing or altered";
    line.more = {{"bytes_per_s", line.points * sizeof(float) / line.seconds}};
    return std::vector{line};
}

}  // namespace tally::bench
