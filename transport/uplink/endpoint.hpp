// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Where the receiver is: ws://host[:port] or wss://host[:port]; IPv6 in brackets.
// Errors  invalid; denied when plaintext would leave the host.

#include <string>

#include "agent/base/result.hpp"

namespace tally::uplink {

struct Endpoint {
    bool tls = false;
    std::string host;
    std::string port;
    bool loopback() const;
};
Result<Endpoint> parse_endpoint(const std::string& url);

}  // namespace tally::uplink
