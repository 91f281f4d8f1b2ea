// SPDX-License-Identifier: Apache-2.0
#include "agent/ring/registry.hpp"

#include <limits>

#include "agent/ring/names.hpp"

namespace tally::ring {

namespace {

bool text_ok(std::string_view text, std::size_t bytes_max = name_bytes_max) {
    return text.size() <= bytes_max && utf8_ok(text.data(), text.size(), false);
}

// What is left of an entry is padding: less than 8 zero bytes.
bool only_padding_left(ByteReader& in) {
    if (!in.ok() || in.left() >= record_align) return false;
    for (const std::uint8_t b : in.bytes(in.left()))
        if (b != 0) return false;
    return true;
}

}  // namespace

Status Registry::append(ByteView bytes) {
    ByteReader in(bytes);
    while (in.left() > 0) {
        const auto header = in.get<RegistryHeader>();
        if (!in.ok()) return fail(Code::truncated, "registry entry header");
        if (header.bytes < sizeof(RegistryHeader) || header.bytes % record_align != 0)
            return fail(Code::corrupt, "registry entry length", header.bytes);
        const ByteView body = in.bytes(header.bytes - sizeof(RegistryHeader));
        if (!in.ok()) return fail(Code::truncated, "registry entry", header.bytes);
        if (!producer_ && header.kind != RegistryKind::producer)
            return fail(Code::corrupt, "the first registry entry must be the producer's");
        TALLY_TRY(entry(header.kind, body));
    }
    return {};
}

Status Registry::entry(RegistryKind kind, ByteView body) {
    ByteReader in(body);
    switch (kind) {
        case RegistryKind::producer: return add_producer(in);
        case RegistryKind::block: return add_block(in);
        case RegistryKind::series: return add_series(in);
    }
    return fail(Code::unsupported, "registry entry kind", static_cast<std::uint64_t>(kind));
}

Status Registry::add_producer(ByteReader& in) {
    if (producer_) return fail(Code::corrupt, "second producer entry in a ring");
    const auto fixed = in.get<RegistryProducer>();
    ProducerInfo info{fixed.run_created_ns, fixed.fork_step, fixed.attempt, fixed.producers, {}, {}, {}, {}, {}, {}, {}};
    std::string_view texts[7];
    for (auto& text : texts) text = in.text16();
    if (!only_padding_left(in)) return fail(Code::corrupt, "producer entry");
    if (!run_id_valid(texts[0])) return fail(Code::corrupt, "run id");
    for (int i = 1; i <= 4; ++i)
        if (!text_ok(texts[i])) return fail(Code::corrupt, "text of the producer entry", static_cast<std::uint64_t>(i));
    if (!text_ok(texts[5], labels_bytes_max)) return fail(Code::corrupt, "labels");
    if (!texts[6].empty()) {
        info.continues = Uuid::parse(texts[6]);
        if (!info.continues) return fail(Code::corrupt, "continues is not a UUID");
    }
    info.run = texts[0];
    info.project = texts[1];
    info.name = texts[2];
    info.role = texts[3];
    info.host = texts[4];
    info.labels = texts[5];
    producer_ = std::move(info);
    return {};
}

Status Registry::add_block(ByteReader& in) {
    if (block_ || kind_ != RingKind::block) return fail(Code::corrupt, "block entry where none belongs");
    const auto fixed = in.get<RegistryBlock>();
    if (!in.ok() || fixed.block == 0 || fixed.metrics == 0 || fixed.metrics > metrics_max)
        return fail(Code::corrupt, "block entry");
    if (fixed.env_count == 0 || fixed.env_count > envs_max ||
        fixed.env_first > std::numeric_limits<std::uint32_t>::max() - (fixed.env_count - 1))
        return fail(Code::corrupt, "environments of a block", fixed.env_count);
    BlockInfo info{fixed.block, fixed.env_first, fixed.env_count, {}};
    std::set<std::string_view> names;
    for (std::uint32_t i = 0; i < fixed.metrics; ++i) {
        const auto dtype = in.get<std::uint8_t>();
        const std::string_view name = in.text16();
        if (!in.ok() || !dtype_valid(dtype) || !metric_name_valid(name)) return fail(Code::corrupt, "metric of a block", i);
        if (!names.insert(name).second) return fail(Code::corrupt, "metric named twice in a block", i);
        info.metrics.push_back({static_cast<Dtype>(dtype), std::string(name)});
    }
    if (!only_padding_left(in)) return fail(Code::corrupt, "block entry length");
    block_ = std::move(info);
    return {};
}

Status Registry::add_series(ByteReader& in) {
    if (kind_ != RingKind::scalar) return fail(Code::corrupt, "series entry in a block ring");
    const auto fixed = in.get<RegistrySeries>();
    const std::string_view name = in.text16();
    if (!only_padding_left(in)) return fail(Code::corrupt, "series entry");
    if (fixed.series != series_.size()) return fail(Code::corrupt, "series id out of order", fixed.series);
    if (!dtype_valid(fixed.dtype) || !metric_name_valid(name)) return fail(Code::corrupt, "series", fixed.series);
    const auto dtype = static_cast<Dtype>(fixed.dtype);
    if (!series_names_.emplace(name, dtype).second) return fail(Code::corrupt, "series registered twice", fixed.series);
    series_.push_back({dtype, std::string(name)});
    return {};
}

}  // namespace tally::ring
