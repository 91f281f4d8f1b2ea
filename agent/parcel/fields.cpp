// SPDX-License-Identifier: Apache-2.0
#include "agent/parcel/fields.hpp"

#include "agent/parcel/utf8.hpp"

namespace tally::parcel {

void FieldReader::refuse(Code code, const char* what) {
    if (first_.code == Code::ok) first_ = Error{code, 0, what, in_.at()};
    in_.spoil();
}

std::string FieldReader::checked(std::string_view text) {
    if (!utf8_valid(text)) {
        refuse(Code::corrupt, "text is not UTF-8");
        return {};
    }
    return std::string(text);
}

bool FieldReader::flag() {
    const auto v = get<std::uint8_t>();
    require(v <= 1, "flag is neither 0 nor 1");
    return v == 1;
}

Dtype FieldReader::dtype() {
    const auto code = get<std::uint8_t>();
    if (ok() && !dtype_valid(code)) refuse(Code::unsupported, "dtype");
    return ok() ? static_cast<Dtype>(code) : Dtype::f32;
}

std::uint32_t FieldReader::count(std::size_t bytes_each) {
    const auto n = get<std::uint32_t>();
    if (n <= left() / bytes_each) return n;
    refuse(Code::truncated, "count is larger than what follows");
    return 0;
}

Origin FieldReader::origin() {
    Origin o;
    o.run = text16();
    o.project = text16();
    o.producer = uuid();
    o.attempt = get<std::uint32_t>();
    o.run_created_ns = get<std::int64_t>();
    return o;
}

Metric FieldReader::metric() {
    Metric m;
    m.dtype = dtype();
    m.name = text16();
    return m;
}

std::vector<Metric> FieldReader::metrics() {
    const auto n = get<std::uint16_t>();
    std::vector<Metric> out;
    if (n > left() / 3) {
        refuse(Code::truncated, "metric table");
        return out;
    }
    out.reserve(n);
    for (std::uint16_t i = 0; i < n && ok(); ++i) out.push_back(metric());
    return out;
}

Status FieldReader::finish(const char* section) {
    if (first_.code != Code::ok) return std::unexpected(first_);
    if (!in_.ok()) return fail(Code::truncated, section);
    if (in_.left() != 0) return fail(Code::corrupt, section, in_.left());
    return {};
}

void write_origin(ByteWriter& w, const Origin& origin) {
    w.text16(origin.run);
    w.text16(origin.project);
    w.put(origin.producer);
    w.put(origin.attempt);
    w.put(origin.run_created_ns);
}

void write_metric(ByteWriter& w, const Metric& metric) {
    w.put(metric.dtype);
    w.text16(metric.name);
}

void write_metrics(ByteWriter& w, const std::vector<Metric>& metrics) {
    TALLY_ASSERT(metrics.size() <= UINT16_MAX);
    w.put(static_cast<std::uint16_t>(metrics.size()));
    for (const Metric& m : metrics) write_metric(w, m);
}

}  // namespace tally::parcel
