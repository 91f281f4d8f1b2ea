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

struct OpenedStore {
    QueryFn query;
    std::string how;          // "receiver 127.0.0.1:7411" or "store /var/lib/tallyman/store"
    std::string landing_dir;  // from the config, or empty
};
// On failure the text says why.
std::expected<OpenedStore, std::string> open_store(const StoreWhere& where);

}  // namespace tally::tools
