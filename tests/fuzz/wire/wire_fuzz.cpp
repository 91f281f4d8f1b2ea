// SPDX-License-Identifier: Apache-2.0
//
// What  Hostile bytes at both session machines: no crash, and what decodes encodes to something that decodes again.

#include <cstdint>

#include "transport/wire/client_session.hpp"
#include "transport/wire/server_session.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tally;
    using namespace tally::wire;
    const ByteView input(data, size);
    if (const auto m = decode(input); m && !std::holds_alternative<Skipped>(*m)) TALLY_ASSERT(decode(encode(*m)));
    Hello hello;
    hello.start = StartId{1};
    hello.spool.bytes[0] = 1;
    ClientSession client(hello, 1);
    client.on_message(input, 2);
    Welcome welcome;
    welcome.credit_bytes = 1000;
    ClientSession open_client(hello, 1);
    open_client.on_message(encode(welcome), 2);
    open_client.on_message(input, 3);
    open_client.on_tick(4);
    ServerSession server(1);
    server.on_message(input, 2);
    ServerSession open_server(1);
    open_server.on_message(encode(hello), 2);
    open_server.welcome(welcome, 2);
    open_server.on_message(input, 3);
    open_server.on_tick(4);
    return 0;
}
