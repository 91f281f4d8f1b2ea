// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The database `tallyman`: the .sql files, embedded, expanded and applied at opening.
// Flow    sql/NNN*.sql -> embed_sql.cmake -> schema_files -> apply_schema(connection).
// Errors  unsupported: the store was made by a newer schema; refused: the engine's words are in the log.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "transport/sink/chdb.hpp"

namespace tally::sink {

struct SchemaFile {
    unsigned version;
    const char* text;
};
extern const SchemaFile schema_files[];
extern const std::size_t schema_file_count;

inline constexpr unsigned widths[] = {1, 2, 4, 8};

// Statements of one file, comments gone, placeholders filled in; one per width where {WIDTH} occurs.
std::vector<std::string> schema_statements(std::string_view text);

// Creates or brings up to date what is missing or has changed; does nothing on a store that is current.
Status apply_schema(Connection& connection);

// SQL of a value's own bits (UInt64) and of its value (Float64), from the joined plane bytes b0, b1, ...
std::string bits_sql(unsigned width);
std::string value_sql(unsigned width);

}  // namespace tally::sink
