// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What `doctor` and `check --probe` found: one line per question, with what to do about it.

#include <string>
#include <vector>

namespace tally::tools {

enum class Verdict { ok, degraded, broken, skipped };

struct Finding {
    std::string name;
    Verdict verdict = Verdict::ok;
    std::string found;
    std::string todo;  // empty when fine
};
using Findings = std::vector<Finding>;

const char* verdict_name(Verdict verdict);
bool any_broken(const Findings& findings);
std::string text_of(const Findings& findings);
std::string json_of(const Findings& findings);  // {"verdict": ..., "checks": [{name, verdict, found, todo}]}

}  // namespace tally::tools
