// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    libchdb.so (ClickHouse in process), loaded at run time: connections, queries, streamed Native inserts.
// Flow    Store -> Connection (writer), Connections (readers) -> engine.
// Threads The library's own threads run beside ours (20 to 130). A Connection runs one statement at a time and is used
//         by one thread at a time; several connections to the one path may work at once.
// Owns    A Connection closes itself. After the last one is closed the process should leave with _exit: the engine's
//         static destructors are not safe to run.
// Errors  missing: no library, or one without the functions needed; refused: the engine said no, see Answer::error;
//         busy: another process has the path.
// Limits  One storage path per process (the engine's rule); a second path is refused by the engine.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/bytes.hpp"
#include "agent/base/result.hpp"

namespace tally::sink {

using Params = std::vector<std::pair<std::string, std::string>>;

// Path of the library that would be loaded, or empty. Order: `wanted`, $TALLYMAN_CHDB, system library path, build/deps.
std::string find_chdb(const std::string& wanted = {});

struct Answer {
    std::string rows;   // in the format asked for
    std::string error;  // the engine's own words; empty when it worked
    bool ok() const { return error.empty(); }
};

struct ConnectionOptions {
    std::string library;  // as find_chdb takes it
    std::string dir;
    // Passed as --name=value. Readers of users' text must have readonly = 1: 2 lets them write files.
    std::vector<std::pair<std::string, std::string>> settings;
};

class Connection {
public:
    static Result<std::unique_ptr<Connection>> open(const ConnectionOptions& options);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    Answer query(std::string_view sql, std::string_view format = "TabSeparated", const Params& params = {});
    // One Native block given in pieces. `into` is "INSERT INTO t (columns) SETTINGS ...", without FORMAT: inline data
    // would be cut at its first blank line. Empty when committed, else the engine's words.
    std::string insert(const std::string& into, std::span<const ByteView> pieces);

private:
    Connection() = default;
    void* handle_ = nullptr;
};

}  // namespace tally::sink
