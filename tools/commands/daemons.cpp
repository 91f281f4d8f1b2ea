// SPDX-License-Identifier: Apache-2.0
#include <sys/utsname.h>

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "agent/app/agent.hpp"
#include "agent/app/runtime.hpp"
#include "agent/app/version.hpp"
#include "config/files.hpp"
#include "transport/sink/chdb.hpp"
#include "tools/commands/commands.hpp"

namespace tally::tools {

namespace {

int version() {
    utsname u{};
    ::uname(&u);
    const std::string chdb = sink::find_chdb();
    std::printf("tallyman %s\ncompiler %s\nkernel %s\nembedded ClickHouse: %s\n", app::version, __VERSION__, u.release,
                chdb.empty() ? "not found" : chdb.c_str());
    return 0;
}

}  // namespace

void add_daemons(CLI::App& app, Run& run) {
    auto file = std::make_shared<std::string>();
    auto* agent = app.add_subcommand("agent", "the per-host daemon: takes points from trainers, keeps them on disk, ships them");
    agent->add_option("--config", *file, "agent.toml")->required();
    agent->callback([&run, file] { run = [file] { return app::run_agent(*file); }; });

    auto* receiver = app.add_subcommand("receiver", "the far end: takes parcels, keeps them, stores every point once");
    receiver->add_option("--config", *file, "receiver.toml")->required();
    receiver->callback([&run, file] { run = [file] { return app::run_receiver(*file); }; });

    app.add_subcommand("version", "version, compiler, kernel, embedded ClickHouse")->callback([&run] { run = version; });
}

}  // namespace tally::tools
