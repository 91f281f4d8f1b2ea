// SPDX-License-Identifier: Apache-2.0
#include "transport/sink/schema.hpp"

#include <cctype>
#include <charconv>

#include "agent/base/hash.hpp"
#include "agent/base/log.hpp"

namespace tally::sink {

namespace {

// Merging is most of the cost per point, hence its ceiling; everything written is synced before it counts.
constexpr const char* table_settings =
    "max_bytes_to_merge_at_max_space_in_pool = 1073741824, fsync_after_insert = 1, fsync_part_directory = 1, "
    "min_rows_to_fsync_after_merge = 1";

void replace_all(std::string& text, std::string_view from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

std::string numbered(unsigned width, const char* before, const char* after) {
    std::string out;
    for (unsigned p = 0; p < width; ++p) {
        std::string one = std::string(before) + after;
        replace_all(one, "#", std::to_string(p));
        out += (p == 0 ? "" : ", ") + one;
    }
    return out;
}

std::string expand(std::string statement, unsigned width) {
    replace_all(statement, "{WIDTH}", std::to_string(width));
    // A codec cannot be given inside Nested, so the planes are spelled out as what Nested is stored as.
    replace_all(statement, "v Nested({PLANES})", numbered(width, "`v.p#`", " Array(UInt8) CODEC(ZSTD(1))"));
    replace_all(statement, "{JOIN}", numbered(width, "v.p#", " AS b#"));
    replace_all(statement, "{BITS}", bits_sql(width));
    replace_all(statement, "{VALUE}", value_sql(width));
    return statement;
}

// A semicolon ends a statement unless it is quoted; "--" begins a comment.
std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> out;
    std::string one;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (!quoted && c == '-' && i + 1 < text.size() && text[i + 1] == '-') {
            i = std::min(text.find('\n', i), text.size() - 1);
            one += '\n';
            continue;
        }
        if (c == '\'') quoted = !quoted;
        if (c == ';' && !quoted) {
            out.push_back(one);
            one.clear();
        } else {
            one += c;
        }
    }
    out.push_back(one);
    std::erase_if(out, [](const std::string& s) { return s.find_first_not_of(" \n\t") == std::string::npos; });
    return out;
}

Status run(Connection& connection, const std::string& sql) {
    const Answer answer = connection.query(sql);
    if (answer.ok()) return {};
    log_error("sink.schema", {{"why", answer.error}, {"statement", sql.substr(0, 200)}});
    return fail(Code::refused, "sink: the engine refused the schema");
}

}  // namespace

std::string bits_sql(unsigned width) {
    std::string out = "toUInt64(b0)";
    for (unsigned p = 1; p < width; ++p)
        out += " + bitShiftLeft(toUInt64(b" + std::to_string(p) + "), " + std::to_string(8 * p) + ")";
    return "(" + out + ")";
}

std::string value_sql(unsigned width) {
    const std::string b = bits_sql(width);
    if (width == 1) return "multiIf(dtype = 5, toFloat64(reinterpretAsInt8(b0)), toFloat64(b0))";
    if (width == 2) {
        // f16 by way of the f32 with the same sign, exponent and mantissa; subnormals scaled exactly.
        const std::string h = "toUInt32(" + b + ")";
        const std::string sign = "bitShiftLeft(bitAnd(" + h + ", 32768), 16)";
        const std::string mantissa = "bitShiftLeft(bitAnd(" + h + ", 1023), 13)";
        const std::string exponent = "bitAnd(bitShiftRight(" + h + ", 10), 31)";
        return "multiIf(dtype = 2, toFloat64(reinterpretAsFloat32(toUInt32(bitShiftLeft(" + h + ", 16)))), "
               "dtype = 6, toFloat64(reinterpretAsInt16(toUInt16(" + b + "))), dtype = 10, toFloat64(" + b + "), "
               + exponent + " = 0, toFloat64(bitAnd(" + h + ", 1023)) * 5.9604644775390625e-8 * if(bitAnd(" + h + ", 32768) = 0, 1, -1), "
               "toFloat64(reinterpretAsFloat32(toUInt32(" + sign + " + " + mantissa + " + bitShiftLeft(if(" + exponent +
               " = 31, 255, " + exponent + " + 112), 23)))))";
    }
    if (width == 4)
        return "multiIf(dtype = 3, toFloat64(reinterpretAsFloat32(toUInt32(" + b + "))), dtype = 7, toFloat64(reinterpretAsInt32(toUInt32(" +
               b + "))), toFloat64(" + b + "))";
    return "multiIf(dtype = 4, reinterpretAsFloat64(" + b + "), dtype = 8, toFloat64(reinterpretAsInt64(" + b + ")), toFloat64(" + b + "))";
}

std::vector<std::string> schema_statements(std::string_view text) {
    std::vector<std::string> out;
    for (std::string& statement : split(text)) {
        replace_all(statement, "{SETTINGS}", table_settings);
        if (statement.find("{WIDTH}") == std::string::npos)
            out.push_back(std::move(statement));
        else
            for (const unsigned width : widths) out.push_back(expand(statement, width));
    }
    return out;
}

Status apply_schema(Connection& connection) {
    TALLY_TRY(run(connection, "CREATE DATABASE IF NOT EXISTS tallyman"));
    TALLY_TRY(run(connection,
                  "CREATE TABLE IF NOT EXISTS tallyman.schema (version UInt32, hash UInt64, applied DateTime DEFAULT now()) "
                  "ENGINE = ReplacingMergeTree ORDER BY version SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"));
    const Answer newest = connection.query("SELECT max(version) FROM tallyman.schema");
    unsigned version = 0;
    std::from_chars(newest.rows.data(), newest.rows.data() + newest.rows.size(), version);
    if (version > schema_file_count) return fail(Code::unsupported, "sink: the store has a newer schema", version);
    for (std::size_t i = 0; i < schema_file_count; ++i) {
        const SchemaFile& file = schema_files[i];
        const std::string key = std::to_string(file.version) + ", " + std::to_string(xxh3(std::string_view(file.text)));
        const Answer known =
            connection.query("SELECT count() FROM tallyman.schema FINAL WHERE (version, hash) = (" + key + ")");
        if (known.ok() && known.rows != "0\n") continue;
        for (const std::string& statement : schema_statements(file.text)) TALLY_TRY(run(connection, statement));
        TALLY_TRY(run(connection, "INSERT INTO tallyman.schema (version, hash) SETTINGS async_insert = 0 VALUES (" + key + ")"));
        log_info("sink.schema_applied", {{"version", file.version}});
    }
    return {};
}

}  // namespace tally::sink
