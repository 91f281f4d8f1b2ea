// SPDX-License-Identifier: Apache-2.0
#include "tools/reconcile/row_proof.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "agent/base/hash.hpp"
#include "agent/parcel/row_hash.hpp"
#include "tools/reconcile/suspects.hpp"

namespace tally::reconcile {

namespace {

constexpr std::size_t rows_looked_into_max = 200'000;
constexpr std::int64_t small_change_max = 1 << 20;

struct Field {
    const char* name;
    const char* sql;  // as UInt64: the words that were hashed
    bool is_float = false;
};
struct Layer {
    const char* name;
    const char* table;
    RowTotals LiveTotals::*totals;
    std::string seed;
    const char* where_it_is;  // metric, env, step of a row
    std::vector<Field> fields;
};

constexpr const char* family_seed =
    "xxh3(concat(toString(run), '|', toString(producer), '|', toString(attempt), '|', transform(dtype, [1,2,3,4,5,6,7,8,9,10,11,12,13], "
    "['f16','bf16','f32','f64','i8','i16','i32','i64','u8','u16','u32','u64','bool'], ''), '|', toString(metric)))";

std::string kind_seed(const char* kind) {
    return std::string("xxh3(concat(toString(run), '|', toString(producer), '|', toString(attempt), '|") + kind + "'))";
}

const std::vector<Layer>& layers() {
    static const std::vector<Layer> all = {
        {"headers", "episodes", &LiveTotals::episodes, kind_seed("episodes"), "'', env, step_last",
         {{"env", "toUInt64(env)"}, {"episode", "toUInt64(episode)"}, {"step_first", "toUInt64(step_first)"}, {"step_last", "toUInt64(step_last)"},
          {"points_expected", "points_expected"}, {"return", "reinterpretAsUInt64(ret)", true}, {"length", "toUInt64(length)"}}},
        {"events", "event_rows", &LiveTotals::events, kind_seed("events"), "'', -1, time_ns",
         {{"time_ns", "toUInt64(time_ns)"}, {"kind", "xxh3(toString(kind))"}, {"key", "xxh3(key)"}, {"text", "xxh3(text)"}}},
        {"stats", "stats", &LiveTotals::stats, family_seed, "metric, env_first, step",
         {{"env_first", "toUInt64(env_first)"}, {"env_count", "toUInt64(env_count)"}, {"step", "toUInt64(step)"}, {"time_ns", "toUInt64(time_ns)"},
          {"count", "count"}, {"nonfinite", "nonfinite"}, {"min", "reinterpretAsUInt64(min)", true}, {"max", "reinterpretAsUInt64(max)", true},
          {"sum", "reinterpretAsUInt64(sum)", true}, {"sum_squares", "reinterpretAsUInt64(sum_squares)", true},
          {"histogram", "arraySum((b, c) -> intHash64(bitShiftLeft(toUInt64(b), 32) + c), bins, bin_counts)"}}},
    };
    return all;
}

// What goes into intHash64.
std::string before_hash(const Layer& layer) {
    constexpr auto factors = parcel::row_hash_factors();
    std::string out = layer.seed;
    for (std::size_t i = 0; i < layer.fields.size(); ++i)
        out += std::string(" + ") + layer.fields[i].sql + " * toUInt64(" + std::to_string(factors[i]) + ")";
    return out;
}

std::string from(const Layer& layer, bool final) {
    return std::string(" FROM tallyman.") + layer.table + (final ? " FINAL" : "") + " WHERE run = {run:String}";
}

std::string text_of(const Field& field, std::uint64_t word) {
    char text[96];
    if (field.is_float)
        std::snprintf(text, sizeof text, "%s %.17g", field.name, std::bit_cast<double>(word));
    else
        std::snprintf(text, sizeof text, "%s %lld", field.name, static_cast<long long>(word));
    return text;
}

// A field that changed is taken for the culprit when it did so as faults do it: by a small whole number, or in one bit.
// The factors are odd, so a changed top bit looks the same in every field: it is put down to the one field that has a sign bit there.
bool plausible(const Layer& layer, const Field& field, std::uint64_t found, std::uint64_t expected) {
    const auto floats = std::count_if(layer.fields.begin(), layer.fields.end(), [](const Field& f) { return f.is_float; });
    if ((found ^ expected) == 1ULL << 63) return field.is_float && floats == 1;
    if (std::popcount(found ^ expected) == 1) return true;
    if (field.is_float) {
        const double f = std::bit_cast<double>(found);
        const double change = std::round(std::bit_cast<double>(expected) - f);
        return std::isfinite(change) && change != 0 && std::abs(change) <= static_cast<double>(small_change_max) &&
               std::bit_cast<std::uint64_t>(f + change) == expected;
    }
    const auto change = static_cast<std::int64_t>(expected - found);
    return change != 0 && change <= small_change_max && change >= -small_change_max;
}

constexpr std::uint64_t odd_inverse(std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
}

// The hash is a bijection, so each row tells what it would have to be for the sums to agree.
std::optional<Finding> suspect(Asker& ask, const Layer& layer, const std::string& producer, std::uint64_t difference, bool final) {
    constexpr auto factors = parcel::row_hash_factors();
    std::string columns;
    for (const Field& f : layer.fields) columns += std::string(", ") + f.sql;
    const auto rows = ask.rows(std::string("SELECT ") + layer.where_it_is + ", " + before_hash(layer) + columns + from(layer, final) +
                                   " AND producer = {producer:UUID} LIMIT " + std::to_string(rows_looked_into_max),
                               {{"producer", producer}});
    for (const auto& row : rows) {
        const std::uint64_t x = to_u64(row[3]);
        const std::uint64_t change = int_hash64_inverse(int_hash64(x) + difference) - x;
        for (std::size_t i = 0; i < layer.fields.size(); ++i) {
            const std::uint64_t found = to_u64(row[4 + i]);
            const std::uint64_t expected = found + change * odd_inverse(factors[i]);
            if (plausible(layer, layer.fields[i], found, expected))
                return Finding{layer.name, row[0], to_i64(row[1]), to_i64(row[2]), text_of(layer.fields[i], expected), text_of(layer.fields[i], found)};
        }
    }
    return std::nullopt;
}

void prove_layer(Asker& ask, const Layer& layer, const std::map<std::string, LiveTotals>& logged, bool final, Report& report) {
    std::map<std::string, RowTotals> stored;
    for (const auto& row : ask.rows("SELECT producer, count(), sum(intHash64(" + before_hash(layer) + "))" + from(layer, final) + " GROUP BY producer"))
        stored[row[0]] = {to_u64(row[1]), to_u64(row[2])};
    for (const auto& [producer, totals] : logged) {
        const RowTotals& want = totals.*layer.totals;
        const RowTotals& there = stored[producer];
        if (want.rows != there.rows || want.hash == there.hash) continue;
        ++report.mismatched;
        if (auto named = suspect(ask, layer, producer, want.hash - there.hash, final))
            report.add(std::move(*named));
        else
            report.add({layer.name, "", -1, 0, "producer " + producer + ": hash " + std::to_string(want.hash), "hash " + std::to_string(there.hash)});
    }
}

}  // namespace

void prove_rows(Asker& ask, const std::map<std::string, LiveTotals>& logged, bool final, Report& report) {
    for (const Layer& layer : layers()) prove_layer(ask, layer, logged, final, report);
}

}  // namespace tally::reconcile
