// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    JSON text into the cells of a Row: nested keys joined with `/`, lists and media counted as one thing each, numbers exact.
//         NaN, Infinity and -Infinity are read, as Python writes them.
// Threads One thread at a time.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tools/import/reader.hpp"

namespace tally::import {

// Adds what `json` holds to the row, under `prefix` when it is not empty (then `json` may be any value). False: not JSON, or too deep;
// the row may then hold a part.
bool flatten(std::string_view json, std::string_view prefix, Names& names, Row& row);

// A document with a list of objects under `list`: `each` is called with every object's row. False: not JSON. What is beside the list, and
// what in it is no object, is state and no row.
bool flatten_list(std::string_view json, std::string_view list, Names& names, Row& row, const std::function<bool(const Row&)>& each);

// The value under a top-level key as JSON text of at most `bytes_max`; empty when it is not there or longer.
std::string member_text(std::string_view json, std::string_view key, std::size_t bytes_max);

}  // namespace tally::import
