// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Texts in a parcel are well-formed UTF-8: readers check, intake repairs what a trainer gave.

#include <string>
#include <string_view>

namespace tally::parcel {

bool utf8_valid(std::string_view text) noexcept;
// Every byte that belongs to no well-formed sequence becomes U+FFFD; nothing else changes.
std::string utf8_repaired(std::string_view text);

}  // namespace tally::parcel
