// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    One WebSocket to the receiver: dials, shakes hands, moves bytes. Knows nothing of parcels.
// Threads The io_context's one thread.
// Errors  Every end comes once through on_closed with the HTTP status of a declined upgrade (0 otherwise) and why.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/uplink/endpoint.hpp"
#include "transport/wire/session.hpp"

namespace boost::asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace boost::asio

namespace tally::uplink {

struct ConnectionEvents {
    std::function<void()> on_open;
    std::function<void(ByteView)> on_message;
    std::function<void()> on_drained;  // the last message given to write() left for the kernel
    std::function<void(unsigned http_status, std::uint32_t retry_after_s, const std::string& why)> on_closed;
};

class Connection {
public:
    static std::shared_ptr<Connection> dial(boost::asio::io_context& io, boost::asio::ssl::context* tls,
                                            const Endpoint& endpoint, const std::string& token, ConnectionEvents events);
    virtual ~Connection() = default;

    virtual void write(wire::Output message) = 0;
    virtual std::size_t queued() const = 0;  // messages not yet handed to the kernel
    virtual std::int64_t write_began_ns() const = 0;  // 0 when nothing is being written
    virtual void close(const std::string& why) = 0;
};

}  // namespace tally::uplink
