// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <CLI/CLI.hpp>

#include "tools/bench/bench.hpp"
#include "tools/commands/commands.hpp"

namespace tally::tools {

void add_bench(CLI::App& app, Run& run) {
    auto options = std::make_shared<bench::Options>();
    auto* c = app.add_subcommand("bench", "measures a stage against the limit measured in the same run");
    c->add_option("case", options->name, "ingest or store")->required()->check(CLI::IsMember({"ingest", "store"}));
    c->add_option("--seconds", options->seconds, "how long each repeat logs")->check(CLI::Range(1.0, 3600.0));
    c->add_option("--repeats", options->repeats, "repeats; the median is reported")->check(CLI::Range(1, 100));
    c->add_option("--dir", options->dir, "where its spool, landing and store go; emptied afterwards");
    c->add_flag("--json", options->json, "one JSON object");
    c->callback([&run, options] { run = [options] { return bench::run(*options); }; });
}

}  // namespace tally::tools
