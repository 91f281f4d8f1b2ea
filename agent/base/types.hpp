// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Identities and small value types that every module shares.

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace tally {

// 16 bytes in RFC 9562 text order; text form is lower case with dashes.
struct Uuid {
    std::array<std::uint8_t, 16> bytes{};

    static Uuid random();  // version 4, from getrandom(2)
    static std::optional<Uuid> parse(std::string_view text);
    std::string text() const;
    bool is_nil() const { return *this == Uuid{}; }
    auto operator<=>(const Uuid&) const = default;
};
static_assert(sizeof(Uuid) == 16);

std::uint64_t random_u64();  // getrandom(2)

enum class Lane : std::uint8_t { live = 0, bulk = 1, file = 2 };
inline constexpr std::size_t lane_count = 3;
const char* lane_name(Lane lane) noexcept;  // "live", "bulk", "file"; also the folder names of a spool

// One life of an agent (or of a receiver's landing) on a spool. Never 0.
enum class StartId : std::uint64_t {};
// Position of a parcel in its lane within one start; the first is 1.
enum class Seq : std::uint64_t {};
// Commit group within one start; the first is 1.
enum class GroupNo : std::uint64_t {};

constexpr std::uint64_t raw(StartId v) { return static_cast<std::uint64_t>(v); }
constexpr std::uint64_t raw(Seq v) { return static_cast<std::uint64_t>(v); }
constexpr std::uint64_t raw(GroupNo v) { return static_cast<std::uint64_t>(v); }

// What makes a parcel the same parcel everywhere, for ever (with the spool's UUID).
struct ParcelId {
    StartId start{};
    Lane lane = Lane::live;
    Seq seq{};
    auto operator<=>(const ParcelId&) const = default;
};

// dtype codes are persisted in rings, parcels and the store; never renumber. Widths in bytes.
enum class Dtype : std::uint8_t {
    f16 = 1, bf16 = 2, f32 = 3, f64 = 4,
    i8 = 5, i16 = 6, i32 = 7, i64 = 8,
    u8 = 9, u16 = 10, u32 = 11, u64 = 12,
    boolean = 13,
};
constexpr std::uint32_t dtype_width(Dtype d) {
    switch (d) {
        case Dtype::f16: case Dtype::bf16: case Dtype::i16: case Dtype::u16: return 2;
        case Dtype::f32: case Dtype::i32: case Dtype::u32: return 4;
        case Dtype::f64: case Dtype::i64: case Dtype::u64: return 8;
        case Dtype::i8: case Dtype::u8: case Dtype::boolean: return 1;
    }
    return 0;  // not a dtype
}
constexpr bool dtype_valid(std::uint8_t code) { return code >= 1 && code <= 13; }
const char* dtype_name(Dtype d) noexcept;  // "f16" ... "bool": the names of contract and SQL
std::optional<Dtype> dtype_parse(std::string_view name);
// The value as f64 (what the view `points.value` shows); `bits` zero-extended.
double dtype_to_f64(Dtype d, std::uint64_t bits) noexcept;

// 1-128 of [A-Za-z0-9_.-]
bool run_id_valid(std::string_view id) noexcept;
// 1-256 bytes of UTF-8 without control characters
bool metric_name_valid(std::string_view name) noexcept;

}  // namespace tally
