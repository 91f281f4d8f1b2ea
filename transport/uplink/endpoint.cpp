// SPDX-License-Identifier: Apache-2.0
#include "transport/uplink/endpoint.hpp"

#include <arpa/inet.h>

#include <charconv>

namespace tally::uplink {

bool Endpoint::loopback() const {
    // A name such as 127.example.com is not an address.
    in_addr v4{};
    const bool loopback_v4 = ::inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
    return host == "localhost" || host == "::1" || loopback_v4;
}

Result<Endpoint> parse_endpoint(const std::string& url) {
    constexpr const char* shape = "endpoint: must be ws://host:port or wss://host:port";
    Endpoint out;
    std::string rest;
    if (url.starts_with("wss://")) {
        out.tls = true;
        rest = url.substr(6);
    } else if (url.starts_with("ws://")) {
        rest = url.substr(5);
    } else {
        return fail(Code::invalid, shape);
    }
    if (rest.ends_with("/")) rest.pop_back();
    const auto bracket = rest.starts_with("[") ? rest.find(']') : std::string::npos;
    if (bracket != std::string::npos) {
        out.host = rest.substr(1, bracket - 1);
        rest = rest.substr(bracket + 1);
        if (!rest.empty() && rest[0] != ':') return fail(Code::invalid, shape);
        out.port = rest.empty() ? "" : rest.substr(1);
    } else {
        const auto colon = rest.find(':');
        out.host = rest.substr(0, colon);
        if (colon != std::string::npos) out.port = rest.substr(colon + 1);
    }
    if (out.port.empty()) out.port = out.tls ? "443" : "80";
    std::uint16_t port = 0;
    const auto [end, ec] = std::from_chars(out.port.data(), out.port.data() + out.port.size(), port);
    if (ec != std::errc() || end != out.port.data() + out.port.size() || port == 0) return fail(Code::invalid, shape);
    if (out.host.empty() || out.host.find_first_of("/@? ") != std::string::npos) return fail(Code::invalid, shape);
    return out;
}

}  // namespace tally::uplink
