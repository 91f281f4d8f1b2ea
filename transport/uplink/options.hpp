// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Options of the uplink; a leaf that config may include.

#include <cstdint>
#include <string>

namespace tally::uplink {

struct Options {
    std::string endpoint = "ws://127.0.0.1:7411";  // ws:// or wss://, host, port
    std::string token_file;                        // ingest token, re-read at every connect
    std::string ca_file;                           // empty: the system's
    bool allow_plaintext = false;                  // ws:// to other than loopback
    std::uint64_t sessions = 4;                    // one live, the rest bulk
    std::uint64_t window_bytes = 64ULL << 20;      // bulk held in memory until acknowledged
    std::uint64_t live_window_bytes = 8ULL << 20;
};

}  // namespace tally::uplink
