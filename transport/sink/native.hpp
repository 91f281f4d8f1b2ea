// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Columns of ClickHouse's Native format as plain byte buffers, and a block of them that is sent in pieces.
// Flow    rows.cpp appends -> Block::pieces() -> Connection::insert. One block, one insert, one part.
// Format  block: varint columns, varint rows, then per column: name, type, data. No block info, no client revision.
// Owns    Columns own their bytes; pieces() borrows them until the next append.
// Invariants
//   I1 every column of a block has the same number of rows when pieces() is called.
//   I2 after mark(), any appends, rollback(): the block is as it was at mark() (names may stay in a dictionary).

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/base/types.hpp"

namespace tally::sink {

void put_varint(Bytes& out, std::uint64_t value);

template <class T>
struct NativeType;
template <> struct NativeType<std::uint8_t> { static constexpr const char* name = "UInt8"; };
template <> struct NativeType<std::uint16_t> { static constexpr const char* name = "UInt16"; };
template <> struct NativeType<std::uint32_t> { static constexpr const char* name = "UInt32"; };
template <> struct NativeType<std::uint64_t> { static constexpr const char* name = "UInt64"; };
template <> struct NativeType<std::int32_t> { static constexpr const char* name = "Int32"; };
template <> struct NativeType<std::int64_t> { static constexpr const char* name = "Int64"; };
template <> struct NativeType<double> { static constexpr const char* name = "Float64"; };

class Column {
public:
    Column(std::string name, std::string type) : name_(std::move(name)), type_(std::move(type)) {}
    virtual ~Column() = default;
    // As an INSERT lists it.
    virtual std::string listed() const { return "`" + name_ + "`"; }

    virtual std::size_t rows() const = 0;
    virtual std::size_t bytes() const = 0;
    virtual void mark() = 0;
    virtual void rollback() = 0;
    // Name, type, then data; small parts are put into `heads` slots that the block owns.
    virtual void emit(std::vector<ByteView>& out) = 0;

protected:
    void emit_head(std::vector<ByteView>& out);
    void emit_named_head(std::vector<ByteView>& out, Bytes& head, const std::string& name) const;

private:
    std::string name_;
    std::string type_;
    Bytes head_;
};

template <class T>
class Fixed final : public Column {
public:
    explicit Fixed(std::string name) : Column(std::move(name), NativeType<T>::name) {}
    void add(T value) { values_.push_back(value); }
    void add(std::size_t n, T value) { values_.insert(values_.end(), n, value); }

    std::size_t rows() const override { return values_.size(); }
    std::size_t bytes() const override { return values_.size() * sizeof(T); }
    void mark() override { mark_ = values_.size(); }
    void rollback() override { values_.resize(mark_); }
    void emit(std::vector<ByteView>& out) override {
        emit_head(out);
        out.emplace_back(reinterpret_cast<const std::uint8_t*>(values_.data()), bytes());
    }

private:
    std::vector<T> values_;
    std::size_t mark_ = 0;
};

// Nullable(Int64): a byte per row (1 = null), then the values.
class NullableI64 final : public Column {
public:
    explicit NullableI64(std::string name) : Column(std::move(name), "Nullable(Int64)") {}
    void add(std::size_t n, bool given, std::int64_t value) {
        null_.insert(null_.end(), n, static_cast<std::uint8_t>(given ? 0 : 1));
        values_.insert(values_.end(), n, given ? value : 0);
    }
    std::size_t rows() const override { return values_.size(); }
    std::size_t bytes() const override { return values_.size() * 9; }
    void mark() override { mark_ = values_.size(); }
    void rollback() override {
        null_.resize(mark_);
        values_.resize(mark_);
    }
    void emit(std::vector<ByteView>& out) override;

private:
    Bytes null_;
    std::vector<std::int64_t> values_;
    std::size_t mark_ = 0;
};

// Two u64, the text order's halves, each little-endian.
class UuidColumn final : public Column {
public:
    explicit UuidColumn(std::string name) : Column(std::move(name), "UUID") {}
    static void store(const Uuid& uuid, std::uint64_t out[2]);
    void add(std::size_t n, const Uuid& uuid);
    std::size_t rows() const override { return halves_.size() / 2; }
    std::size_t bytes() const override { return halves_.size() * 8; }
    void mark() override { mark_ = halves_.size(); }
    void rollback() override { halves_.resize(mark_); }
    void emit(std::vector<ByteView>& out) override;

private:
    std::vector<std::uint64_t> halves_;
    std::size_t mark_ = 0;
};

class Text final : public Column {
public:
    explicit Text(std::string name) : Column(std::move(name), "String") {}
    void add(std::string_view text);
    std::size_t rows() const override { return rows_; }
    std::size_t bytes() const override { return data_.size(); }
    void mark() override;
    void rollback() override;
    void emit(std::vector<ByteView>& out) override;

private:
    Bytes data_;
    std::size_t rows_ = 0;
    std::size_t mark_rows_ = 0;
    std::size_t mark_bytes_ = 0;
};

// LowCardinality(String): the block's own dictionary and a u32 index per row.
class Dictionary final : public Column {
public:
    explicit Dictionary(std::string name) : Column(std::move(name), "LowCardinality(String)") {}
    std::uint32_t key(std::string_view text);
    void add(std::size_t n, std::uint32_t key) { index_.insert(index_.end(), n, key); }
    void add(std::string_view text) { add(1, key(text)); }
    std::size_t rows() const override { return index_.size(); }
    std::size_t bytes() const override { return index_.size() * 4 + keys_data_.size(); }
    void mark() override { mark_ = index_.size(); }
    void rollback() override { index_.resize(mark_); }
    void emit(std::vector<ByteView>& out) override;

private:
    std::unordered_map<std::string, std::uint32_t> keys_;
    Bytes keys_data_;
    std::vector<std::uint32_t> index_;
    Bytes prefix_;
    Bytes count_;
    std::size_t mark_ = 0;
};

// Array(T): cumulative u64 offsets, then the elements.
template <class T>
class Array final : public Column {
public:
    explicit Array(std::string name) : Column(std::move(name), std::string("Array(") + NativeType<T>::name + ")") {}
    void add(const T* elements, std::size_t n) {
        elements_.insert(elements_.end(), elements, elements + n);
        offsets_.push_back(elements_.size());
    }
    void add(const std::vector<T>& elements) { add(elements.data(), elements.size()); }
    void add_empty(std::size_t rows) { offsets_.insert(offsets_.end(), rows, elements_.size()); }

    std::size_t rows() const override { return offsets_.size(); }
    std::size_t bytes() const override { return offsets_.size() * 8 + elements_.size() * sizeof(T); }
    void mark() override {
        mark_rows_ = offsets_.size();
        mark_elements_ = elements_.size();
    }
    void rollback() override {
        offsets_.resize(mark_rows_);
        elements_.resize(mark_elements_);
    }
    void emit(std::vector<ByteView>& out) override {
        emit_head(out);
        out.emplace_back(reinterpret_cast<const std::uint8_t*>(offsets_.data()), offsets_.size() * 8);
        out.emplace_back(reinterpret_cast<const std::uint8_t*>(elements_.data()), elements_.size() * sizeof(T));
    }

private:
    std::vector<std::uint64_t> offsets_;
    std::vector<T> elements_;
    std::size_t mark_rows_ = 0;
    std::size_t mark_elements_ = 0;
};

// Array(UUID), for nested columns only.
class UuidArray final : public Column {
public:
    explicit UuidArray(std::string name) : Column(std::move(name), "Array(UUID)") {}
    void add(const std::vector<Uuid>& uuids);
    std::size_t rows() const override { return offsets_.size(); }
    std::size_t bytes() const override { return (offsets_.size() + halves_.size()) * 8; }
    void mark() override;
    void rollback() override;
    void emit(std::vector<ByteView>& out) override;

private:
    std::vector<std::uint64_t> offsets_;
    std::vector<std::uint64_t> halves_;
    std::size_t mark_rows_ = 0;
    std::size_t mark_halves_ = 0;
};

// v.p0 .. v.p(width-1): the planes, which share their offsets.
class Planes final : public Column {
public:
    explicit Planes(unsigned width);
    // `planes`: width planes of `values` bytes each; `chunk` values a row, the last row takes the rest.
    void add(ByteView planes, std::size_t values, std::size_t chunk);
    std::size_t rows() const override { return offsets_.size(); }
    std::size_t bytes() const override { return planes_.size() * (offsets_.size() * 8 + planes_[0].size()); }
    void mark() override;
    void rollback() override;
    void emit(std::vector<ByteView>& out) override;
    std::string listed() const override;
    std::size_t columns() const { return planes_.size(); }
    void reserve(std::size_t values);

private:
    std::vector<Bytes> planes_;
    std::vector<Bytes> heads_;
    std::vector<std::uint64_t> offsets_;
    std::size_t mark_rows_ = 0;
    std::size_t mark_values_ = 0;
};

class Block {
public:
    explicit Block(std::string table) : table_(std::move(table)) {}
    void attach(Column& column) { columns_.push_back(&column); }
    void attach(Planes& planes) { columns_.push_back(&planes), extra_columns_ += planes.columns() - 1; }

    const std::string& table() const { return table_; }
    std::uint32_t month() const { return month_; }
    void set_month(std::uint32_t month) { month_ = month; }
    std::string column_list() const;  // " (a, b, ...)"
    std::size_t rows() const { return columns_.front()->rows(); }
    std::size_t bytes() const;
    void mark();
    void rollback();
    // Views into the columns, in order; valid until something is appended. role: sink
    std::vector<ByteView> pieces();

private:
    std::string table_;
    std::vector<Column*> columns_;
    std::size_t extra_columns_ = 0;
    std::uint32_t month_ = 0;  // the partition all rows belong to
    Bytes head_;
};

}  // namespace tally::sink
