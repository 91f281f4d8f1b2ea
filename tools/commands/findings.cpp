// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/findings.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tally::tools {

const char* verdict_name(Verdict verdict) {
    switch (verdict) {
        case Verdict::ok: return "ok";
        case Verdict::degraded: return "degraded";
        case Verdict::broken: return "broken";
        case Verdict::skipped: return "skipped";
    }
    return "";
}

bool any_broken(const Findings& findings) {
    return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.verdict == Verdict::broken; });
}

std::string text_of(const Findings& findings) {
    std::string out;
    for (const Finding& f : findings) {
        std::string name = f.name;
        name.resize(std::max<std::size_t>(name.size(), 12), ' ');
        std::string verdict = verdict_name(f.verdict);
        verdict.resize(9, ' ');
        out += name + " " + verdict + " " + f.found + "\n";
        if (!f.todo.empty()) out += std::string(23, ' ') + "-> " + f.todo + "\n";
    }
    return out;
}

std::string json_of(const Findings& findings) {
    nlohmann::json checks = nlohmann::json::array();
    Verdict worst = Verdict::ok;
    for (const Finding& f : findings) {
        checks.push_back({{"name", f.name}, {"verdict", verdict_name(f.verdict)}, {"found", f.found}, {"todo", f.todo}});
        if (f.verdict != Verdict::skipped) worst = std::max(worst, f.verdict);
    }
    return nlohmann::json{{"verdict", verdict_name(worst)}, {"checks", checks}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace tally::tools
