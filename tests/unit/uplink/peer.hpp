// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A receiver made of a script: a real TCP listener and a real WebSocket whose every answer the test decides.
// Threads One per connection; what the script touches is guarded by the test. stop() joins all.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transport/wire/messages.hpp"

namespace tally::uplink {

// One accepted connection.
class Peer {
public:
    virtual ~Peer() = default;
    // Reads the upgrade request and answers with this status line and these header lines instead.
    virtual void decline(const std::string& status, const std::string& headers) = 0;
    // Reads and drops the request; answers nothing, closes.
    virtual void hang_up() = 0;
    // Accepts the upgrade, reads HELLO, says `welcome`. False when the client left.
    virtual bool welcome(const wire::Welcome& welcome) = 0;
    virtual bool accept() = 0;
    virtual void say(const wire::Message& message) = 0;
    virtual void say_raw(ByteView bytes) = 0;
    // The next message; nothing when the connection ended.
    virtual std::optional<wire::Message> hear() = 0;
    virtual void cut() = 0;  // RST, as a dead host or middlebox does

    std::string authorization;  // of the upgrade request
    std::string target;
    wire::Hello hello;
};

class ScriptedServer {
public:
    using Script = std::function<void(Peer&, int accepted)>;  // accepted: 0, 1, 2, ...
    explicit ScriptedServer(Script script);
    ~ScriptedServer();
    std::string url() const;
    int accepted() const { return accepted_.load(); }
    void stop();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    std::atomic<int> accepted_{0};
};

}  // namespace tally::uplink
