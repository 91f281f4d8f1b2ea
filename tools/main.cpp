// SPDX-License-Identifier: Apache-2.0
//
// What  The binary `tallyman`.

#include <unistd.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "tools/commands/commands.hpp"

int main(int argc, char** argv) {
    CLI::App app{"tallyman ships every metric point of a training run from the host to the store, once, and proves it.", "tallyman"};
    app.require_subcommand(1);
    app.footer("Each command explains itself: tallyman COMMAND --help");
    tally::tools::Run run;
    tally::tools::add_daemons(app, run);
    tally::tools::add_config(app, run);
    tally::tools::add_load(app, run);
    tally::tools::add_import(app, run);
    tally::tools::add_status(app, run);
    tally::tools::add_store(app, run);
    tally::tools::add_bench(app, run);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        const int code = app.exit(e);
        return code == 0 ? 0 : 2;
    }
    const int code = run ? run() : 2;
    // The embedded engine's static destructors are not safe to run once it was loaded.
    std::fflush(stdout);
    std::fflush(stderr);
    ::_exit(code);
}
