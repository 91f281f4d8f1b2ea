// SPDX-License-Identifier: Apache-2.0
#include "transport/uplink/endpoint.hpp"

namespace tally::uplink {

bool Endpoint::loopback() const {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
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
    const bool digits = out.port.find_first_not_of("0123456789") == std::string::npos && out.port.size() <= 5;
    if (out.host.empty() || !digits || out.host.find_first_of("/@? ") != std::string::npos) return fail(Code::invalid, shape);
    return out;
}

}  // namespace tally::uplink
