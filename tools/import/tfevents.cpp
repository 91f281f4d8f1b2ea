// SPDX-License-Identifier: Apache-2.0
//
// What    TensorBoard event files: TFRecord frames (length, masked CRC-32C of it, event, masked CRC-32C of that) around Event messages.
#include <cstring>

#include <boost/crc.hpp>

#include "tools/import/reader.hpp"

#include "import/tfevents.pb.h"

namespace tally::import {

namespace {

constexpr std::size_t head_bytes = 12;
constexpr std::size_t tail_bytes = 4;

std::uint32_t masked_crc(std::string_view bytes) {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
    crc.process_bytes(bytes.data(), bytes.size());
    const std::uint32_t c = crc.checksum();
    return ((c >> 15) | (c << 17)) + 0xA282EAD8U;
}

template <class T>
T little_endian(std::string_view bytes) {
    T v;
    std::memcpy(&v, bytes.data(), sizeof v);
    return v;
}

bool head_is_sound(std::string_view bytes) { return masked_crc(bytes.substr(0, 8)) == little_endian<std::uint32_t>(bytes.substr(8)); }

bool all_zero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

// TensorFlow's DataType numbers.
enum TensorType { tf_float = 1, tf_double, tf_int32, tf_uint8, tf_int16, tf_int8, tf_string, tf_complex, tf_int64, tf_bool,
                  tf_bfloat16 = 14, tf_uint16 = 17, tf_half = 19, tf_uint32 = 22, tf_uint64 = 23 };

template <class Raw, class Values, class Make>
std::optional<Number> one_of(const tf::Tensor& t, const Values& values, Make make) {
    if (t.content().size() == sizeof(Raw)) return make(little_endian<Raw>(t.content()));
    if (t.content().empty() && values.size() == 1) return make(static_cast<Raw>(values.Get(0)));
    return std::nullopt;
}

template <class Raw, class Values>
std::optional<Number> whole_number(const tf::Tensor& t, const Values& values) {
    return one_of<Raw>(t, values, [](Raw v) { return of_i64(static_cast<std::int64_t>(v)); });
}

bool holds_one(const tf::Tensor& t) {
    if (t.shape().unknown_rank()) return false;
    for (const auto& d : t.shape().dim()) {
        if (d.size() != 1) return false;
    }
    return true;
}

std::optional<Number> number_of_tensor(const tf::Tensor& t) {
    if (!holds_one(t)) return std::nullopt;
    switch (t.dtype()) {
        case tf_float: return one_of<float>(t, t.float_value(), of_f32);
        case tf_double: return one_of<double>(t, t.double_value(), of_f64);
        case tf_int64: return whole_number<std::int64_t>(t, t.int64_value());
        case tf_int32: return whole_number<std::int32_t>(t, t.int_value());
        case tf_int16: return whole_number<std::int16_t>(t, t.int_value());
        case tf_int8: return whole_number<std::int8_t>(t, t.int_value());
        case tf_uint8: return whole_number<std::uint8_t>(t, t.int_value());
        case tf_uint16: return whole_number<std::uint16_t>(t, t.int_value());
        case tf_uint32: return whole_number<std::uint32_t>(t, t.uint32_value());
        case tf_uint64: return one_of<std::uint64_t>(t, t.uint64_value(), of_u64);
        case tf_bool: return one_of<std::uint8_t>(t, t.bool_value(), [](std::uint8_t v) { return of_bool(v != 0); });
        case tf_half: return one_of<std::uint16_t>(t, t.half_value(), [](std::uint16_t v) { return Number{Dtype::f16, v}; });
        case tf_bfloat16: return one_of<std::uint16_t>(t, t.half_value(), [](std::uint16_t v) { return Number{Dtype::bf16, v}; });
        default: return std::nullopt;
    }
}

class TfEvents final : public Reader {
public:
    std::string format() const override { return "TensorBoard events"; }
    std::string step() const override { return "the event's step"; }

    std::size_t read(std::string_view bytes, bool, RowSink& out) override {
        std::size_t at = 0;
        while (broken_.empty()) {
            const std::string_view rest = bytes.substr(at);
            if (rest.size() < head_bytes || !sound(rest)) break;
            const auto length = little_endian<std::uint64_t>(rest);
            if (length > rest.size() || rest.size() - length < head_bytes + tail_bytes) break;
            at += head_bytes + length + tail_bytes;
            const std::string_view event = rest.substr(head_bytes, length);
            take(event, masked_crc(event) == little_endian<std::uint32_t>(rest.substr(head_bytes + length)));
            if (!row_.cells.empty() || !row_.skipped.empty() || !row_.refused.empty()) {
                if (!out.row(row_)) break;
            }
        }
        return at;
    }

private:
    // False: not now (a tail of zeros may still be written) or never (broken_).
    bool sound(std::string_view rest) {
        if (!head_is_sound(rest)) {
            if (!all_zero(rest)) broken_ = "the length of a record fails its checksum; what follows cannot be found";
            return false;
        }
        if (little_endian<std::uint64_t>(rest) > record_bytes_max) {
            broken_ = "a record of " + std::to_string(little_endian<std::uint64_t>(rest)) + " bytes is more than an import takes";
            return false;
        }
        return true;
    }

    void take(std::string_view bytes, bool intact) {
        row_.clear();
        if (!intact) {
            row_.refused = "an event fails its checksum";
            return;
        }
        event_.Clear();
        if (!event_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
            row_.refused = "an event is not in TensorBoard's format";
            return;
        }
        row_.step = event_.step();
        row_.time_ns = time_ns_of(event_.wall_time());
        for (const auto& v : event_.summary().value()) {
            const std::uint32_t name = names_.index_of(v.tag());
            if (v.has_simple_value()) {
                row_.cells.push_back({name, of_f32(v.simple_value())});
            } else if (const auto n = v.has_tensor() ? number_of_tensor(v.tensor()) : std::nullopt) {
                row_.cells.push_back({name, *n});
            } else if (v.value_case() != tf::Summary::Value::VALUE_NOT_SET) {
                row_.skipped.push_back(name);
            }
        }
    }

    tf::Event event_;
    Row row_;
};

}  // namespace

bool looks_like_tfevents(std::string_view head) { return head.size() >= head_bytes && head_is_sound(head) && !all_zero(head.substr(0, head_bytes)); }

std::unique_ptr<Reader> open_tfevents() { return std::make_unique<TfEvents>(); }

}  // namespace tally::import
