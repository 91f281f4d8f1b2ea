// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Asks a store in SQL: over the running receiver's POST /query, or by opening the store itself when none runs.
// Errors  A sentence that says what to do.

#include <functional>
#include <string>

#include "agent/base/result.hpp"
#include "transport/sink/chdb.hpp"

namespace tally::tools {

struct StoreWhere {
    std::string receiver;     // address:port; empty: from config, else 127.0.0.1:7411
    std::string config;       // receiver.toml
    std::string token_file;   // read token; empty: <landing>/read.token of the config
};

// SQL, format, parameters -> rows or the error's words.
using QueryFn = std::function<sink::Answer(const std::string& sql, const std::string& format, const sink::Params& params)>;

// Parcels the far end has made durable, and how many of those its store has taken, in the same order.
struct Backlog {
    std::uint64_t landed = 0;
    std::uint64_t stored = 0;
};
// Error: a sentence; reconcile then cannot tell what is still on its way.
using BacklogFn = std::function<std::expected<Backlog, std::string>()>;

struct OpenedStore {
    QueryFn query;
    BacklogFn backlog;
    std::string how;          // "receiver 127.0.0.1:7411" or "store /var/lib/tallyman/store"
    std::string landing_dir;  // from the config, or empty
};
// On failure the text says why.
std::expected<OpenedStore, std::string> open_store(const StoreWhere& where);

// Parcels landed before this call that the store has not taken after `patience_ns`; 0 as soon as it has all of them.
std::expected<std::uint64_t, std::string> wait_for_store(const BacklogFn& backlog, std::int64_t patience_ns);

}  // namespace tally::tools
