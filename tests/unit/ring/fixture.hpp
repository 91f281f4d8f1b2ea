// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A ring with both of its ends in one process, and the records and entries that tests write.

#include <doctest/doctest.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/ring/consumer.hpp"
#include "agent/ring/create.hpp"
#include "agent/ring/producer.hpp"

namespace tally::ring::test {

inline constexpr std::uint32_t self_uid_any = 0;  // as offered by root: ownership is another test's business

inline void put_producer(Producer& p, std::string_view run = "run-1", std::string_view labels = "") {
    Bytes body;
    ByteWriter w(body);
    w.put(RegistryProducer{0, INT64_MAX, 0, 1});
    for (const std::string_view t : {run, std::string_view("proj"), std::string_view("name"), std::string_view("0"),
                                     std::string_view("host"), labels, std::string_view("")})
        w.text16(t);
    const Producer::Piece piece{body.data(), body.size()};
    CHECK(p.append_registry(RegistryKind::producer, &piece, 1));
}

inline bool put_series(Producer& p, std::uint32_t id, Dtype dtype, std::string_view name) {
    Bytes body;
    ByteWriter w(body);
    w.put(RegistrySeries{id, static_cast<std::uint8_t>(dtype), {}});
    w.text16(name);
    const Producer::Piece piece{body.data(), body.size()};
    return p.append_registry(RegistryKind::series, &piece, 1);
}

inline void put_block(Producer& p, std::uint32_t env_count, const std::vector<MetricInfo>& metrics, std::uint32_t id = 1,
                      std::uint32_t env_first = 0) {
    Bytes body;
    ByteWriter w(body);
    w.put(RegistryBlock{id, env_first, env_count, static_cast<std::uint32_t>(metrics.size())});
    for (const MetricInfo& m : metrics) {
        w.put(static_cast<std::uint8_t>(m.dtype));
        w.text16(m.name);
    }
    const Producer::Piece piece{body.data(), body.size()};
    CHECK(p.append_registry(RegistryKind::block, &piece, 1));
}

struct Ring {
    explicit Ring(RingKind kind = RingKind::scalar, std::uint64_t data_bytes = data_bytes_min) {
        CreateRequest request;
        request.kind = kind;
        request.data_bytes = data_bytes;
        request.ring_uuid[0] = 1;
        request.producer_uuid[0] = 2;
        int raw = -1;
        REQUIRE(create_ring(request, raw, pages) == 0);
        fd.reset(raw);
        producer = Producer(pages);
        put_producer(producer);
    }
    ~Ring() { unmap_pages(pages); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    Mapping map() const {
        auto mapping = Mapping::open(Fd(::dup(fd.get())), self_uid_any);
        REQUIRE(mapping.has_value());
        return std::move(*mapping);
    }
    Control& control() const { return *pages.control; }
    // Writes over the header of the record at `position`.
    template <class F>
    void spoil(std::uint64_t position, F&& change) const {
        RecordHeader h;
        std::uint8_t* at = pages.data + (position & (pages.data_bytes - 1));
        std::memcpy(&h, at, sizeof(h));
        change(h);
        std::memcpy(at, &h, sizeof(h));
    }
    bool log(std::int64_t step, const std::vector<ScalarValue>& values) {
        const std::size_t bytes = sizeof(ScalarBody) + values.size() * sizeof(ScalarValue);
        std::uint8_t* body = producer.claim(bytes);
        if (body == nullptr) return false;
        const ScalarBody head{step, static_cast<std::uint32_t>(values.size()), 0};
        std::memcpy(body, &head, sizeof(head));
        std::memcpy(body + sizeof(head), values.data(), values.size() * sizeof(ScalarValue));
        RecordMeta meta;
        meta.kind = RecordKind::scalars;
        meta.points = values.size();
        meta.time_ns = 10'000'000'000;
        producer.commit(meta);
        return true;
    }

    Fd fd;
    Pages pages;
    Producer producer;
};

}  // namespace tally::ring::test
