// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Little-endian writing and bounded reading of untrusted bytes.
// Owns    ByteWriter appends to a vector it borrows; ByteReader borrows the bytes, views it returns live as long.
// Errors  ByteReader is sticky: after the first read past the end every read yields zero/empty and ok() is false,
//         so a parser reads a whole struct and checks once. Lengths must still be bounded before memory is reserved.

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tally {

static_assert(std::endian::native == std::endian::little, "formats are little-endian and copied as they are");

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

inline ByteView as_bytes(std::string_view s) {
    return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}
inline std::string_view as_text(ByteView b) {
    return {reinterpret_cast<const char*>(b.data()), b.size()};
}

class ByteWriter {
public:
    explicit ByteWriter(Bytes& out) : out_(out) {}

    template <class T>
        requires std::is_trivially_copyable_v<T>
    void put(const T& value) {
        const std::size_t at = out_.size();
        out_.resize(at + sizeof(T));
        std::memcpy(out_.data() + at, &value, sizeof(T));
    }
    void bytes(ByteView b) { out_.insert(out_.end(), b.begin(), b.end()); }
    // u16 length, then the bytes; longer text is cut by the caller, never here.
    void text16(std::string_view s) {
        put(static_cast<std::uint16_t>(s.size()));
        bytes(as_bytes(s));
    }
    void text32(std::string_view s) {
        put(static_cast<std::uint32_t>(s.size()));
        bytes(as_bytes(s));
    }
    void align(std::size_t to) {
        while (out_.size() % to != 0) out_.push_back(0);
    }
    std::size_t size() const { return out_.size(); }
    template <class T>
    void patch(std::size_t at, const T& value) {
        std::memcpy(out_.data() + at, &value, sizeof(T));
    }

private:
    Bytes& out_;
};

class ByteReader {
public:
    explicit ByteReader(ByteView in) : in_(in) {}

    template <class T>
        requires std::is_trivially_copyable_v<T>
    T get() {
        T value{};
        if (in_.size() - at_ < sizeof(T)) return spoil(), value;
        std::memcpy(&value, in_.data() + at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }
    ByteView bytes(std::size_t n) {
        if (in_.size() - at_ < n) return spoil(), ByteView{};
        const ByteView view = in_.subspan(at_, n);
        at_ += n;
        return view;
    }
    std::string_view text16() { return as_text(bytes(get<std::uint16_t>())); }
    std::string_view text32() { return as_text(bytes(get<std::uint32_t>())); }
    // Skips to a multiple of `to` from the start of the view.
    void align(std::size_t to) { bytes((to - at_ % to) % to); }

    bool ok() const { return ok_; }
    std::size_t at() const { return at_; }
    std::size_t left() const { return in_.size() - at_; }
    void spoil() {
        ok_ = false;
        at_ = in_.size();
    }

private:
    ByteView in_;
    std::size_t at_ = 0;
    bool ok_ = true;
};

}  // namespace tally
