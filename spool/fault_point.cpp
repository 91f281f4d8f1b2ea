// SPDX-License-Identifier: Apache-2.0
#include "spool/fault_point.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace tally::spool {

namespace {

struct Rule {
    std::string name;
    std::uint64_t count = 1;
};

Rule read_rule() {
    const char* text = std::getenv("TALLYMAN_FAULT_POINT");
    if (text == nullptr) return {};
    Rule rule{text, 1};
    if (const auto colon = rule.name.find(':'); colon != std::string::npos) {
        rule.count = std::strtoull(rule.name.c_str() + colon + 1, nullptr, 10);
        rule.name.resize(colon);
    }
    return rule;
}

std::function<void(std::string_view)>& hook() {
    static std::function<void(std::string_view)> value;
    return value;
}

}  // namespace

void set_fault_hook(std::function<void(std::string_view)> value) {
    hook() = std::move(value);
}

void fault_point(const char* name) noexcept {
    if (hook()) return hook()(name);
    static const Rule rule = read_rule();
    static std::uint64_t passed = 0;
    if (rule.name.empty() || rule.name != name) return;
    if (++passed == rule.count) ::kill(::getpid(), SIGKILL);
}

}  // namespace tally::spool
