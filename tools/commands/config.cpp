// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "agent/app/runtime.hpp"
#include "agent/base/fd.hpp"
#include "config/files.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/probe.hpp"

namespace tally::tools {

namespace {

int check(const std::string& file, bool with_probe, bool json) {
    config::AgentConfig agent;
    config::ReceiverConfig receiver;
    const bool is_receiver = config::looks_like_receiver(file);
    if (app::print_problems(is_receiver ? config::load_receiver(file, receiver) : config::load_agent(file, agent))) return 2;
    if (!with_probe) {
        std::printf("%s: ok (%s)\n", file.c_str(), is_receiver ? "receiver" : "agent");
        return 0;
    }
    const Findings found = is_receiver ? probe(receiver) : probe(agent);
    std::fputs((json ? json_of(found) : text_of(found)).c_str(), stdout);
    return any_broken(found) ? 2 : 0;
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

int reference(const std::string& dir) {
    for (const auto& [name, content] : config::generated_files()) {
        if (dir.empty()) {
            if (name == "KEYS.md") std::fputs(content.c_str(), stdout);
        } else if (auto ok = write_file_atomic(dir + "/" + name, as_bytes(content), 0644); !ok) {
            std::fprintf(stderr, "tallyman config reference: %s/%s: %s\n", dir.c_str(), name.c_str(), ok.error().text().c_str());
            return 1;
        }
    }
    return 0;
}

}  // namespace

void add_config(CLI::App& app, Run& run) {
    auto file = std::make_shared<std::string>();
    auto with_probe = std::make_shared<bool>(false);
    auto json = std::make_shared<bool>(false);
    auto* c = app.add_subcommand("check", "validates a configuration file and its drop-ins; exit 2 names every problem with its line");
    c->add_option("file", *file, "agent.toml or receiver.toml")->required();
    c->add_flag("--probe", *with_probe, "also writes to the disk and dials the receiver, as the service would; run it as the service's user");
    c->add_flag("--json", *json, "with --probe: one JSON object");
    c->callback([&run, file, with_probe, json] { run = [=] { return check(*file, *with_probe, *json); }; });

    auto* config_command = app.add_subcommand("config", "the effective configuration");
    config_command->require_subcommand(1);
    auto* dump_command = config_command->add_subcommand("dump", "every key with the value in force; secrets stay in their files");
    dump_command->add_option("file", *file, "agent.toml or receiver.toml")->required();
    dump_command->callback([&run, file] { run = [file] { return dump(*file); }; });
    auto write = std::make_shared<std::string>();
    auto* reference_command = config_command->add_subcommand("reference", "every key with its default, range and what it does");
    reference_command->add_option("--write", *write, "a folder: writes the example files and KEYS.md there");
    reference_command->callback([&run, write] { run = [write] { return reference(*write); }; });
}

}  // namespace tally::tools
