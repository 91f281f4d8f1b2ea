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

int check(const std::string& file) {
    config::AgentConfig agent;
    config::ReceiverConfig receiver;
    const bool is_receiver = config::looks_like_receiver(file);
    if (app::print_problems(is_receiver ? config::load_receiver(file, receiver) : config::load_agent(file, agent))) return 2;
    std::printf("%s: ok (%s)\n", file.c_str(), is_receiver ? "receiver" : "agent");
    return 0;
}

int dump(const std::string& file) {
    config::AgentConfig agent;
    config::ReceiverConfig receiver;
    const bool is_receiver = config::looks_like_receiver(file);
    config::Schema schema = is_receiver ? config::receiver_schema(receiver) : config::agent_schema(agent);
    if (app::print_problems(schema.load(file))) return 2;
    std::fputs(schema.dump().c_str(), stdout);
    return 0;
}

int reference() {
    config::AgentConfig agent;
    config::ReceiverConfig receiver;
    std::printf("# agent.toml\n%s\n# receiver.toml\n%s", config::agent_schema(agent).reference().c_str(),
                config::receiver_schema(receiver).reference().c_str());
    return 0;
}

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

    auto* check_command = app.add_subcommand("check", "validates a configuration file; exit 2 names every problem with its line");
    check_command->add_option("file", *file, "agent.toml or receiver.toml")->required();
    check_command->callback([&run, file] { run = [file] { return check(*file); }; });

    auto* config_command = app.add_subcommand("config", "the effective configuration");
    config_command->require_subcommand(1);
    auto* dump_command = config_command->add_subcommand("dump", "every key with the value in force");
    dump_command->add_option("file", *file, "agent.toml or receiver.toml")->required();
    dump_command->callback([&run, file] { run = [file] { return dump(*file); }; });
    config_command->add_subcommand("reference", "every key with its default and what it does")->callback([&run] { run = reference; });

    app.add_subcommand("version", "version, compiler, kernel, embedded ClickHouse")->callback([&run] { run = version; });
}

}  // namespace tally::tools
