// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    agent.toml and receiver.toml as option structs, and what differs between two loadings of one.
// Flow    load_* at start and at `check`; at SIGHUP the daemons load afresh, compare() and take the new values or none.
// Errors  load_*: every problem with file, line and key; options are usable only when there is none.

#include <string>
#include <vector>

#include "agent/base/log.hpp"
#include "agent/intake/options.hpp"
#include "agent/ring/options.hpp"
#include "config/schema.hpp"
#include "spool/options.hpp"
#include "transport/receiver/options.hpp"
#include "transport/sink/options.hpp"
#include "transport/uplink/options.hpp"

namespace tally::config {

struct LogConfig {
    LogLevel level = LogLevel::info;
};
struct AgentConfig {
    LogConfig log;
    ring::Options ring;
    intake::Options intake;
    spool::Options spool;
    uplink::Options uplink;
};
struct ReceiverConfig {
    LogConfig log;
    receiver::Options receiver;
    spool::Options landing;
    sink::Options sink;
};

// Both bind the fields of `config`, which must outlive the schema.
Schema agent_schema(AgentConfig& config);
Schema receiver_schema(ReceiverConfig& config);

std::vector<Problem> load_agent(const std::string& file, AgentConfig& config);
std::vector<Problem> load_receiver(const std::string& file, ReceiverConfig& config);
// Which of the two a file is meant to be: receiver.toml has a [receiver] section.
bool looks_like_receiver(const std::string& file);

// One key whose value is another now.
struct Change {
    std::string path;
    std::string before;
    std::string after;
    bool reloadable = false;
};
std::vector<Change> compare(const Schema& before, const Schema& after);

// The example files, KEYS.md: content by file name, made from the schemas. tests/unit/config compares them with the repository.
std::vector<std::pair<std::string, std::string>> generated_files();

}  // namespace tally::config
