// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    agent.toml and receiver.toml as option structs.
// Errors  load_*: every problem with file, line and key; options are usable only when there is none.

#include <string>
#include <vector>

#include "agent/intake/options.hpp"
#include "agent/ring/options.hpp"
#include "config/schema.hpp"
#include "spool/options.hpp"
#include "transport/receiver/options.hpp"
#include "transport/sink/options.hpp"
#include "transport/uplink/options.hpp"

namespace tally::config {

struct AgentConfig {
    ring::Options ring;
    intake::Options intake;
    spool::Options spool;
    uplink::Options uplink;
};
struct ReceiverConfig {
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

}  // namespace tally::config
