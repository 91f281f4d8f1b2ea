// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/native.hpp"

#include "agent/base/result.hpp"

namespace tally::sink {

namespace {

constexpr std::uint64_t dictionary_version = 1;       // shared dictionaries with additional keys
constexpr std::uint64_t dictionary_flags = 2 | 1U << 9 | 1U << 10;  // u32 indexes, keys follow, replace the dictionary

void put_text(Bytes& out, std::string_view text) {
    put_varint(out, text.size());
    const ByteView b = as_bytes(text);
    out.insert(out.end(), b.begin(), b.end());
}

template <class T>
ByteView view(const std::vector<T>& values) {
    return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

void put_varint(Bytes& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
    out.push_back(static_cast<std::uint8_t>(value));
}

void Column::emit_head(std::vector<ByteView>& out) { emit_named_head(out, head_, name_); }

void Column::emit_named_head(std::vector<ByteView>& out, Bytes& head, const std::string& name) const {
    head.clear();
    put_text(head, name);
    put_text(head, type_);
    out.emplace_back(head);
}

void NullableI64::emit(std::vector<ByteView>& out) {
    emit_head(out);
    out.push_back(view(null_));
    out.push_back(view(values_));
}

void UuidColumn::store(const Uuid& uuid, std::uint64_t out[2]) {
    for (int half = 0; half < 2; ++half) {
        std::uint64_t v = 0;
        for (int i = 0; i < 8; ++i) v = v << 8 | uuid.bytes[static_cast<std::size_t>(half * 8 + i)];
        out[half] = v;
    }
}

void UuidColumn::add(std::size_t n, const Uuid& uuid) {
    std::uint64_t halves[2];
    store(uuid, halves);
    for (std::size_t i = 0; i < n; ++i) halves_.insert(halves_.end(), halves, halves + 2);
}

void UuidColumn::emit(std::vector<ByteView>& out) {
    emit_head(out);
    out.push_back(view(halves_));
}

void Text::add(std::string_view text) {
    put_text(data_, text);
    ++rows_;
}
void Text::mark() {
    mark_rows_ = rows_;
    mark_bytes_ = data_.size();
}
void Text::rollback() {
    rows_ = mark_rows_;
    data_.resize(mark_bytes_);
}
void Text::emit(std::vector<ByteView>& out) {
    emit_head(out);
    out.push_back(view(data_));
}

std::uint32_t Dictionary::key(std::string_view text) {
    const auto [it, added] = keys_.try_emplace(std::string(text), static_cast<std::uint32_t>(keys_.size()));
    if (added) put_text(keys_data_, text);
    return it->second;
}

void Dictionary::emit(std::vector<ByteView>& out) {
    emit_head(out);
    prefix_.clear();
    ByteWriter prefix(prefix_);
    prefix.put(dictionary_version);
    prefix.put(dictionary_flags);
    prefix.put(static_cast<std::uint64_t>(keys_.size()));
    count_.clear();
    ByteWriter(count_).put(static_cast<std::uint64_t>(index_.size()));
    out.emplace_back(prefix_);
    out.push_back(view(keys_data_));
    out.emplace_back(count_);
    out.push_back(view(index_));
}

void UuidArray::add(const std::vector<Uuid>& uuids) {
    for (const Uuid& uuid : uuids) {
        std::uint64_t halves[2];
        UuidColumn::store(uuid, halves);
        halves_.insert(halves_.end(), halves, halves + 2);
    }
    offsets_.push_back(halves_.size() / 2);
}
void UuidArray::mark() {
    mark_rows_ = offsets_.size();
    mark_halves_ = halves_.size();
}
void UuidArray::rollback() {
    offsets_.resize(mark_rows_);
    halves_.resize(mark_halves_);
}
void UuidArray::emit(std::vector<ByteView>& out) {
    emit_head(out);
    out.push_back(view(offsets_));
    out.push_back(view(halves_));
}

Planes::Planes(unsigned width) : Column("v", "Array(UInt8)"), planes_(width), heads_(width) {}

void Planes::reserve(std::size_t values) {
    for (Bytes& plane : planes_) plane.reserve(values);
}

void Planes::add(ByteView planes, std::size_t values, std::size_t chunk) {
    TALLY_ASSERT(planes.size() == values * planes_.size() && chunk != 0);
    const std::size_t before = planes_[0].size();
    for (std::size_t p = 0; p < planes_.size(); ++p) {
        const std::uint8_t* from = planes.data() + p * values;
        planes_[p].insert(planes_[p].end(), from, from + values);
    }
    for (std::size_t at = chunk; at < values; at += chunk) offsets_.push_back(before + at);
    offsets_.push_back(before + values);
}

void Planes::mark() {
    mark_rows_ = offsets_.size();
    mark_values_ = planes_[0].size();
}
void Planes::rollback() {
    offsets_.resize(mark_rows_);
    for (Bytes& plane : planes_) plane.resize(mark_values_);
}
void Planes::emit(std::vector<ByteView>& out) {
    for (std::size_t p = 0; p < planes_.size(); ++p) {
        emit_named_head(out, heads_[p], "v.p" + std::to_string(p));
        out.push_back(view(offsets_));
        out.push_back(view(planes_[p]));
    }
}

std::string Planes::listed() const {
    std::string out;
    for (std::size_t p = 0; p < planes_.size(); ++p) out += (p == 0 ? "`v.p" : ", `v.p") + std::to_string(p) + "`";
    return out;
}

std::string Block::column_list() const {
    std::string out;
    for (const Column* c : columns_) out += (out.empty() ? " (" : ", ") + c->listed();
    return out + ")";
}

std::size_t Block::bytes() const {
    std::size_t sum = 0;
    for (const Column* c : columns_) sum += c->bytes();
    return sum;
}
void Block::mark() {
    for (Column* c : columns_) c->mark();
}
void Block::rollback() {
    for (Column* c : columns_) c->rollback();
}

std::vector<ByteView> Block::pieces() {
    for (const Column* c : columns_) TALLY_ASSERT(c->rows() == rows());
    head_.clear();
    put_varint(head_, columns_.size() + extra_columns_);
    put_varint(head_, rows());
    std::vector<ByteView> out;
    out.emplace_back(head_);
    for (Column* c : columns_) c->emit(out);
    return out;
}

}  // namespace tally::sink
