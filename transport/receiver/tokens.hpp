// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The two tokens of a receiver: the ingest token lets agents ship, the read token lets people query.

#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace tally::receiver {

Result<std::string> load_token(const std::string& path);
// Reads it, or makes one (mode 0600) when the file does not exist.
Result<std::string> load_or_make_token(const std::string& path);
// Takes the same time wherever they differ. `header` is the Authorization value.
bool bearer_matches(std::string_view header, std::string_view token) noexcept;

}  // namespace tally::receiver
