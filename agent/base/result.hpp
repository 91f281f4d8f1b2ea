// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Errors as values. `Result<T>` is std::expected<T, Error>; "full" and "empty" are outcomes, not errors.
// Threads Values; any thread.
// Errors  Three tiers: a bug of ours -> TALLY_ASSERT (always on); the world -> Result; stopping is right -> exit
//         code, decided in agent/app or tools only.

#include <cstdint>
#include <expected>
#include <string>

namespace tally {

// One sentence per code: when it happens; what the caller should do. tests/unit/base walks this list.
enum class Code : std::uint16_t {
    ok = 0,
    invalid,      // an argument or configuration value makes no sense; fix it, do not retry
    io,           // the kernel refused a file or socket operation; see sys
    corrupt,      // bytes fail their check; set them aside, go on with what follows
    truncated,    // bytes end before their own length says; as corrupt
    unsupported,  // a version, kind or feature this build does not know; skip if optional, else refuse
    too_big,      // a length exceeds the stated limit; refuse it alone
    busy,         // someone else holds the lock or the resource; tell the user who
    full,         // a budget is used up; wait for space or apply the policy
    not_found,    // the named thing does not exist
    conflict,     // the same identity with other content; park and report, never drop as duplicate
    refused,      // the other side said no for good; park and report
    closed,       // the peer or the object is gone; reconnect or reopen
    timeout,      // the deadline passed; retry with backoff
    denied,       // credentials or permissions are missing; retrying does not help
    missing,      // the environment lacks something (a library, a kernel feature); say which
    suspect,      // a write or sync failed: nothing in that segment may be trusted or retried in place
};

const char* code_name(Code code) noexcept;

// 24 bytes; `where` must be a string literal.
struct Error {
    Code code = Code::ok;
    std::int32_t sys = 0;  // errno, or 0
    const char* where = "";
    std::uint64_t number = 0;  // an offset, length or id that helps; 0 when none

    // "where: code (strerror) [number]"
    std::string text() const;
};
static_assert(sizeof(Error) == 24);

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(Code code, const char* where, std::uint64_t number = 0) {
    return std::unexpected(Error{code, 0, where, number});
}
// Captures errno (or the given one) and picks the code that fits it.
std::unexpected<Error> fail_errno(const char* where, int err = -1, std::uint64_t number = 0);

[[noreturn]] void assert_failed(const char* what, const char* file, int line) noexcept;

}  // namespace tally

#define TALLY_ASSERT(cond) \
    (static_cast<bool>(cond) ? void(0) : ::tally::assert_failed(#cond, __FILE__, __LINE__))

// Propagates the error of a Result or Status expression; the value is dropped.
#define TALLY_TRY(expr)                                              \
    do {                                                             \
        if (auto tally_try_ = (expr); !tally_try_) return std::unexpected(tally_try_.error()); \
    } while (0)
