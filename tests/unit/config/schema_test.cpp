// SPDX-License-Identifier: Apache-2.0
//
// What  Loading: typing slips, units, drop-ins, credentials, rules that span keys, comparing.

#include <unistd.h>

#include "config/texts.hpp"
#include "tests/unit/config/kit.hpp"

using namespace tally;
using test::Folder;

namespace {
std::string agent_problems(const std::string& text, config::AgentConfig* out = nullptr) {
    const Folder folder;
    config::AgentConfig config;
    const auto problems = config::load_agent(folder.write("agent.toml", text), config);
    if (out != nullptr) *out = config;
    std::string shown = test::lines(problems);
    if (const auto at = shown.find("agent.toml"); at != std::string::npos) shown = shown.substr(at);
    return shown;
}
std::string receiver_problems(const std::string& text) {
    const Folder folder;
    config::ReceiverConfig config;
    return test::lines(config::load_receiver(folder.write("receiver.toml", text), config));
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("faults-shippers J121: every key with one letter wrong is an error that names the right one") {
    for (const bool is_agent : {true, false}) {
        config::AgentConfig a;
        config::ReceiverConfig r;
        const config::Schema schema = is_agent ? config::agent_schema(a) : config::receiver_schema(r);
        const auto values = schema.values();
        CHECK(values.size() > 10);
        for (const auto& value : values) {
            const auto dot = value.path.find('.');
            const std::string section = value.path.substr(0, dot);
            const std::string name = value.path.substr(dot + 1);
            for (std::size_t i = 0; i < name.size(); ++i) {
                std::string wrong = name;
                wrong[i] = wrong[i] == 'q' ? 'x' : 'q';
                const Folder folder;
                config::AgentConfig agent;
                config::ReceiverConfig receiver;
                config::Schema loading = is_agent ? config::agent_schema(agent) : config::receiver_schema(receiver);
                const auto problems = loading.load(folder.write("f.toml", "[" + section + "]\n" + wrong + " = " + value.text + "\n"));
                INFO(section << "." << wrong);
                CHECK(has(test::lines(problems), "f.toml:2: " + section + "." + wrong + ": unknown key; did you mean"));
            }
        }
    }
}

TEST_CASE("faults-shippers J121: sections with a slip, keys outside sections, keys of another section") {
    CHECK(has(agent_problems("[spol]\ndir = \"/s\"\n"), "agent.toml:1: spol: unknown section; did you mean [spool]?"));
    CHECK(has(agent_problems("dir = \"/s\"\n"), "agent.toml:1: dir: unknown key outside a section"));
    CHECK(has(agent_problems("[uplink]\nbudget = \"1GiB\"\n"), "did you mean [spool] budget?"));
    CHECK(has(agent_problems("spool = 3\n"), "must be a [section]"));
    CHECK(has(agent_problems("[spool]\ndir = \"/a\"\ndir = \"/b\"\n"), "agent.toml:3: "));
    CHECK(has(agent_problems("[spool\n"), "agent.toml:1: "));
}

TEST_CASE("all problems of a file come at once, by line") {
    const std::string p = agent_problems("[spool]\ndir = 7\nbudget = \"5 megs\"\n[ring]\npoll_busy = 5\n[uplink]\nsessions = \"four\"\n");
    CHECK(has(p, "agent.toml:2: spool.dir: must be a text in quotes"));
    CHECK(has(p, "agent.toml:3: spool.budget: \"5 megs\" is no size"));
    CHECK(has(p, "agent.toml:5: ring.poll_busy: must be a duration with a unit, such as \"50ms\""));
    CHECK(has(p, "agent.toml:7: uplink.sessions: must be a whole number"));
    CHECK(has(p, "uplink.token_file: is missing"));
    CHECK(p.find("spool.dir") < p.find("uplink.sessions"));
}

TEST_CASE("units: sizes, durations and rates, with ranges") {
    std::uint64_t size = 0, rate = 0;
    std::int64_t time = 0;
    config::Schema s;
    s.bytes("a.size", size, 1, 1ULL << 40, "");
    s.rate("a.rate", rate, 125, 125'000'000, "");
    s.duration("a.time", time, 1'000'000, 60'000'000'000, "");
    const Folder folder;
    CHECK(s.load(folder.write("f.toml", "[a]\nsize = \"64MiB\"\nrate = \"20Mbit/s\"\ntime = \"50ms\"\n")).empty());
    CHECK(size == 64U << 20);
    CHECK(rate == 2'500'000);
    CHECK(time == 50'000'000);
    CHECK(s.dump() == "[a]\nsize = \"64MiB\"\nrate = \"20Mbit/s\"\ntime = \"50ms\"\n");
    CHECK(has(test::lines(s.load(folder.write("f.toml", "[a]\nsize = 64\n"))), "must be a size with a unit"));
    CHECK(has(test::lines(s.load(folder.write("f.toml", "[a]\nrate = \"20Mbps\"\n"))), "is no rate; write a number and kbit/s"));
    CHECK(has(test::lines(s.load(folder.write("f.toml", "[a]\nrate = \"20Gbit/s\"\n"))), "is out of range, 1kbit/s to 1Gbit/s"));
    CHECK(has(test::lines(s.load(folder.write("f.toml", "[a]\ntime = \"2h\"\n"))), "is out of range, 1ms to 1min"));
    CHECK(has(test::lines(s.load(folder.write("f.toml", "[a]\ntime = \"-1s\"\n"))), "is no duration"));
}

TEST_CASE("drop-ins are read by name after the file, and problems name them") {
    const Folder folder;
    const std::string file = folder.write("agent.toml", test::agent_text("sessions = 3\n"));
    folder.write("agent.toml.d/20-b.toml", "[uplink]\nsessions = 8\n");
    folder.write("agent.toml.d/10-a.toml", "[uplink]\nsessions = 5\nwindow = \"80MiB\"\n");
    folder.write("agent.toml.d/.30.toml.swp", "garbage");
    folder.write("agent.toml.d/30.toml~", "garbage");
    config::AgentConfig config;
    CHECK(test::lines(config::load_agent(file, config)) == "");
    CHECK(config.uplink.sessions == 8);
    CHECK(config.uplink.window_bytes == 80U << 20);
    folder.write("agent.toml.d/40.toml", "\n[uplink]\nsesions = 8\n");
    CHECK(has(test::lines(config::load_agent(file, config)), "agent.toml.d/40.toml:3: uplink.sesions: unknown key; did you mean sessions?"));
    folder.write("agent.toml.d/40.toml", "[uplink]\n\nwindow = \"1MiB\"\n");
    CHECK(has(test::lines(config::load_agent(file, config)), "agent.toml.d/40.toml:3: uplink.window: must hold at least one parcel"));
}

TEST_CASE("secrets come from systemd credentials: by name, or where the key is left out") {
    const Folder folder;
    folder.write("cred/token", "0123456789");
    const std::string file = folder.write("agent.toml", "[spool]\ndir = \"/s\"\n");
    const std::string named = folder.write("named.toml", "[spool]\ndir = \"/s\"\n[uplink]\ntoken_file = \"credential:token\"\n");
    const std::string wrong = folder.write("wrong.toml", "[spool]\ndir = \"/s\"\n[uplink]\ntoken_file = \"credential:tokn\"\n");
    config::AgentConfig config;
    CHECK(has(test::lines(config::load_agent(file, config)), "uplink.token_file: is missing"));
    ::setenv("CREDENTIALS_DIRECTORY", folder.path("cred").c_str(), 1);
    CHECK(test::lines(config::load_agent(file, config)) == "");
    CHECK(config.uplink.token_file == folder.path("cred/token"));
    CHECK(test::lines(config::load_agent(named, config)) == "");
    CHECK(config.uplink.token_file == folder.path("cred/token"));
    CHECK(has(test::lines(config::load_agent(wrong, config)), "the unit loads no credential \"tokn\"; add LoadCredential="));
    ::unsetenv("CREDENTIALS_DIRECTORY");
}

TEST_CASE("rules that span keys name the line of the key to change") {
    CHECK(has(agent_problems(test::agent_text("[ring]\npoll_idle = \"1ms\"\npoll_busy = \"5ms\"\n")), ":7: ring.poll_busy: must not be longer"));
    CHECK(has(agent_problems(test::agent_text("[ring]\nuser_bytes_max = \"2GiB\"\ntotal_bytes_max = \"1GiB\"\n")), "must not exceed total_bytes_max"));
    CHECK(has(agent_problems("[spool]\ndir = \"/s\"\nbudget = \"64MiB\"\nsegment_max = \"256MiB\"\n[uplink]\ntoken_file = \"/t\"\n"), ":3: spool.budget: must be at least 8"));
    CHECK(has(agent_problems(test::agent_text("endpoint = \"ws://example.org:1\"\n")), ":5: uplink.endpoint: ws:// to another host"));
    CHECK(has(agent_problems(test::agent_text("endpoint = \"http://x\"\n")), "must begin with wss://"));
    CHECK(agent_problems(test::agent_text("endpoint = \"ws://example.org:1\"\nallow_plaintext = true\n")) == "");
    CHECK(has(receiver_problems(test::receiver_text("[sink]\nkind = \"chdb\"\n")), "sink.dir: is needed"));
    CHECK(has(receiver_problems(test::receiver_text("[sink]\nkind = \"chdb\"\ndir = \"/l/store\"\n")), "must lie outside [landing] dir"));
    CHECK(has(receiver_problems("[receiver]\ntoken_file = \"/t\"\ncert_file = \"/c\"\n[landing]\ndir = \"/l\"\n"), "receiver.key_file: is needed for TLS"));
    CHECK(has(receiver_problems("[receiver]\ntoken_file = \"/t\"\ninsecure = true\ncert_file = \"/c\"\n[landing]\ndir = \"/l\"\n"), "contradicts cert_file"));
    CHECK(receiver_problems(test::receiver_text()) == "");
}

TEST_CASE("compare names what changed and what a reload may apply") {
    config::AgentConfig first, second;
    config::Schema before = config::agent_schema(first);
    config::Schema after = config::agent_schema(second);
    second.log.level = LogLevel::debug;
    second.spool.budget_bytes = 2ULL << 30;
    const auto changes = config::compare(before, after);
    REQUIRE(changes.size() == 2);
    CHECK(changes[0].path == "log.level");
    CHECK(changes[0].after == "\"debug\"");
    CHECK(changes[0].reloadable);
    CHECK(changes[1].path == "spool.budget");
    CHECK(changes[1].before == "\"64GiB\"");
    CHECK_FALSE(changes[1].reloadable);
}

TEST_CASE("passwords inside addresses are not shown") {
    CHECK(config::without_password("http://user:pw@proxy:3128/x") == "http://***@proxy:3128/x");
    CHECK(config::without_password("wss://host:1/a@b") == "wss://host:1/a@b");
    CHECK(config::without_password("/a/file@x") == "/a/file@x");
}
