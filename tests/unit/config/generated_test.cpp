// SPDX-License-Identifier: Apache-2.0
//
// What  Files made from the list of keys are the ones in the repository, and load as what they say.

#include <fstream>
#include <sstream>

#include "tests/unit/config/kit.hpp"

using namespace tally;

namespace {
std::string slurp(const std::string& path) {
    std::ifstream in(path);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
}
}  // namespace

TEST_CASE("the generated files in config/ are those of the schemas") {
    for (const auto& [name, content] : config::generated_files()) {
        INFO("config/" << name << " is out of date; run: build/tallyman config reference --write config");
        CHECK((slurp("config/" + name) == content));
    }
}

TEST_CASE("the example files load without a problem") {
    config::AgentConfig agent;
    CHECK(test::lines(config::load_agent("config/agent.toml", agent)) == "");
    config::ReceiverConfig receiver;
    CHECK(test::lines(config::load_receiver("config/receiver.toml", receiver)) == "");
}

TEST_CASE("every default that the example shows behind # is a value the key takes, and changes nothing") {
    const test::Folder folder;
    for (const bool is_agent : {true, false}) {
        std::stringstream in(slurp(is_agent ? "config/agent.toml" : "config/receiver.toml"));
        std::string all;
        for (std::string line; std::getline(in, line);)
            all += (line.size() > 1 && line[0] == '#' && line[1] != ' ' ? line.substr(1) : line) + "\n";
        const std::string file = folder.write(is_agent ? "a.toml" : "r.toml", all);
        config::AgentConfig a, a_example;
        config::ReceiverConfig r, r_example;
        config::Schema changed = is_agent ? config::agent_schema(a) : config::receiver_schema(r);
        config::Schema example = is_agent ? config::agent_schema(a_example) : config::receiver_schema(r_example);
        CHECK(test::lines(changed.load(file)) == "");
        CHECK(test::lines(example.load(is_agent ? "config/agent.toml" : "config/receiver.toml")) == "");
        CHECK(config::compare(example, changed).empty());
    }
}

TEST_CASE("a dump loads as itself") {
    const test::Folder folder;
    config::AgentConfig first, second;
    config::Schema before = config::agent_schema(first);
    CHECK(before.load(folder.write("a.toml", test::agent_text("window = \"70MiB\"\n[ring]\npoll_busy = \"3ms\"\n"))).empty());
    config::Schema after = config::agent_schema(second);
    CHECK(test::lines(after.load(folder.write("b.toml", before.dump()))) == "");
    CHECK(config::compare(before, after).empty());
    CHECK(second.uplink.window_bytes == 70U << 20);
}
