// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Reading and writing the fields that all sections share. Internal to this module.
// Errors  FieldReader is sticky like ByteReader, and remembers what was wrong first; finish() tells.

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/parcel/sections.hpp"

namespace tally::parcel {

class FieldReader {
public:
    explicit FieldReader(ByteView body) : in_(body) {}

    template <class T>
    T get() {
        return in_.get<T>();
    }
    Uuid uuid() { return in_.get<Uuid>(); }
    std::string text16() { return checked(in_.text16()); }
    std::string text32() { return checked(in_.text32()); }
    bool flag();  // one byte, 0 or 1
    Dtype dtype();
    // A u32 count of things that take at least `bytes_each` bytes: never more than the bytes left can hold.
    std::uint32_t count(std::size_t bytes_each);
    template <class T>
    void column(std::vector<T>& out, std::size_t n) {
        const ByteView raw = in_.bytes(n * sizeof(T));
        out.resize(raw.size() / sizeof(T));
        if (!raw.empty()) std::memcpy(out.data(), raw.data(), raw.size());
    }
    ByteView bytes(std::size_t n) { return in_.bytes(n); }
    void align(std::size_t to) { in_.align(to); }

    Origin origin();
    Metric metric();
    std::vector<Metric> metrics();  // u16 count

    void refuse(Code code, const char* what);
    void require(bool condition, const char* what) {
        if (!condition) refuse(Code::corrupt, what);
    }
    bool ok() const { return in_.ok(); }
    std::size_t at() const { return in_.at(); }
    std::size_t left() const { return in_.left(); }
    // Everything was read, nothing is left.
    Status finish(const char* section);

private:
    std::string checked(std::string_view text);

    ByteReader in_;
    Error first_{};
};

void write_origin(ByteWriter& w, const Origin& origin);
void write_metric(ByteWriter& w, const Metric& metric);
void write_metrics(ByteWriter& w, const std::vector<Metric>& metrics);

// Fixed fields of a row that occurs often: gathered here, appended at once.
template <std::size_t N>
class RowWriter {
public:
    template <class T>
        requires std::is_trivially_copyable_v<T>
    RowWriter& put(const T& value) {
        TALLY_ASSERT(at_ + sizeof(T) <= N);
        std::memcpy(bytes_ + at_, &value, sizeof(T));
        at_ += sizeof(T);
        return *this;
    }
    void flush(ByteWriter& w) const { w.bytes({bytes_, at_}); }

private:
    std::uint8_t bytes_[N];
    std::size_t at_ = 0;
};

template <class T>
void write_column(ByteWriter& w, const std::vector<T>& column) {
    w.bytes({reinterpret_cast<const std::uint8_t*>(column.data()), column.size() * sizeof(T)});
}

}  // namespace tally::parcel
