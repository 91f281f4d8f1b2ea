// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The files of the page, embedded at build. They hold no secret; what they show they ask for with the read token.
// Threads Constants; any thread.

#include <span>
#include <string_view>

namespace tally::receiver {

struct PageFile {
    std::string_view path;  // as requested
    std::string_view type;  // Content-Type
    std::string_view bytes;
};
std::span<const PageFile> page_files();

// The page loads from and talks to its own receiver only, is not framed, and tells nobody where it was opened.
inline constexpr std::string_view page_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

}  // namespace tally::receiver
