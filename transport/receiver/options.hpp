// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Options of the receiver; a leaf that config may include.

#include <cstdint>
#include <string>

namespace tally::receiver {

enum class AckLevel : std::uint8_t { received = 0, stored = 1 };

struct Options {
    std::string listen = "127.0.0.1:7411";
    std::string token_file;        // ingest token
    std::string read_token_file;   // empty: <landing dir>/read.token, made at the first start
    bool insecure = false;         // plaintext; loopback only unless allow_plaintext
    bool allow_plaintext = false;
    std::string cert_file;
    std::string key_file;
    std::uint64_t max_sessions = 1024;
    AckLevel ack = AckLevel::received;
};

}  // namespace tally::receiver
