// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/bench/bench.hpp"
#include "tools/commands/commands.hpp"

namespace tally::tools {

void add_bench(CLI::App& app, Run& run) {
    auto options = std::make_shared<bench::Options>();
    auto* c = app.add_subcommand("bench", "measures each stage and the whole path, each beside a limit measured in the same run");
    std::vector<std::string> names = bench::case_names();
    std::string list;
    for (const std::string& n : names) list += n + ", ";
    names.emplace_back("all");
    c->add_option("case", options->name, list + "all")->required()->check(CLI::IsMember(names));
    c->add_option("--seconds", options->seconds, "how long each repeat moves data (default: the case's own)")->check(CLI::Range(0.1, 3600.0));
    c->add_option("--repeats", options->repeats, "repeats; the median is reported")->check(CLI::Range(1, 100));
    c->add_option("--dir", options->dir, "where its spool, landing and store go; what it makes there is removed");
    c->add_flag("--json", options->json, "one JSON object");
    c->add_flag("--full", options->full, "as large as tools/bench/README.md says, once");
    c->add_flag("--quick", options->quick, "as small as it goes: proves that the cases work and end exact, their figures mean nothing");
    c->footer("exit status: 0; 1 a case could not run, or what it moved does not reconcile exactly");
    c->callback([&run, options] { run = [options] { return bench::run(*options); }; });
}

}  // namespace tally::tools
