// SPDX-License-Identifier: Apache-2.0
#include "transport/receiver/tokens.hpp"

#include <sys/stat.h>

#include "agent/base/fd.hpp"
#include "agent/base/log.hpp"
#include "agent/base/types.hpp"

namespace tally::receiver {

namespace {
constexpr std::size_t token_bytes_max = 4096;
constexpr std::size_t token_bytes_min = 8;
}  // namespace

Result<std::string> load_token(const std::string& path) {
    auto content = read_file(path, token_bytes_max);
    if (!content) return std::unexpected(content.error());
    struct stat st {};
    if (::stat(path.c_str(), &st) == 0 && (st.st_mode & 0007U) != 0)
        log_warn("receiver.token_readable", {{"file", path}, {"do", "chmod o-rwx"}});
    std::string token(as_text(*content));
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
    if (token.size() < token_bytes_min) return fail(Code::invalid, "token file: a token of at least 8 characters is needed", token.size());
    return token;
}

Result<std::string> load_or_make_token(const std::string& path) {
    auto token = load_token(path);
    if (token || token.error().code != Code::not_found) return token;
    const std::string made = Uuid::random().text() + Uuid::random().text();
    TALLY_TRY(write_file_atomic(path, as_bytes(made + "\n"), 0600));
    return made;
}

bool bearer_matches(std::string_view header, std::string_view token) noexcept {
    constexpr std::string_view scheme = "Bearer ";
    if (!header.starts_with(scheme) || token.empty()) return false;
    header.remove_prefix(scheme.size());
    unsigned difference = header.size() == token.size() ? 0 : 1;
    for (std::size_t i = 0; i < header.size(); ++i)
        difference |= static_cast<unsigned char>(header[i]) ^ static_cast<unsigned char>(token[i % token.size()]);
    return difference == 0;
}

}  // namespace tally::receiver
