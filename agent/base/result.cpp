// SPDX-License-Identifier: Apache-2.0
#include "agent/base/result.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tally {

const char* code_name(Code code) noexcept {
    switch (code) {
        case Code::ok: return "ok";
        case Code::invalid: return "invalid";
        case Code::io: return "io";
        case Code::corrupt: return "corrupt";
        case Code::truncated: return "truncated";
        case Code::unsupported: return "unsupported";
        case Code::too_big: return "too_big";
        case Code::busy: return "busy";
        case Code::full: return "full";
        case Code::not_found: return "not_found";
        case Code::conflict: return "conflict";
        case Code::refused: return "refused";
        case Code::closed: return "closed";
        case Code::timeout: return "timeout";
        case Code::denied: return "denied";
        case Code::missing: return "missing";
        case Code::suspect: return "suspect";
    }
    return "unknown";
}

std::string Error::text() const {
    std::string out = std::string(where) + ": " + code_name(code);
    if (sys != 0) out += std::string(" (") + std::strerror(sys) + ")";
    if (number != 0) out += " [" + std::to_string(number) + "]";
    return out;
}

std::unexpected<Error> fail_errno(const char* where, int err, std::uint64_t number) {
    const int value = err < 0 ? errno : err;
    Code code = Code::io;
    switch (value) {
        case ENOENT: code = Code::not_found; break;
        case EACCES:
        case EPERM: code = Code::denied; break;
        case ENOSPC:
        case EDQUOT: code = Code::full; break;
        case ENOSYS:
        case EOPNOTSUPP: code = Code::unsupported; break;
        case ETIMEDOUT: code = Code::timeout; break;
        case EPIPE:
        case ECONNRESET:
        case ECONNREFUSED: code = Code::closed; break;
        default: break;
    }
    return std::unexpected(Error{code, value, where, number});
}

void assert_failed(const char* what, const char* file, int line) noexcept {
    std::fprintf(stderr, "tallyman: assertion failed: %s at %s:%d\n", what, file, line);
    std::fflush(stderr);
    std::abort();
}

}  // namespace tally
