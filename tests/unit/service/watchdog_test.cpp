// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "agent/app/service.hpp"

using namespace tally;
using namespace tally::app;

namespace {

constexpr std::int64_t second = 1'000'000'000;

// What a service manager hears.
class Ear {
public:
    Ear() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
        char dir[] = "/tmp/tally-ear-XXXXXX";
        dir_ = ::mkdtemp(dir);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, (dir_ + "/n").c_str());
        REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        ::setenv("NOTIFY_SOCKET", address.sun_path, 1);
        ::setenv("WATCHDOG_USEC", "4000000", 1);
    }
    ~Ear() {
        ::unsetenv("NOTIFY_SOCKET");
        ::unsetenv("WATCHDOG_USEC");
        ::unlink((dir_ + "/n").c_str());
        ::rmdir(dir_.c_str());
    }
    std::string next() {
        char text[256];
        const ssize_t n = ::recv(socket_.get(), text, sizeof text, 0);
        return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "";
    }

private:
    Fd socket_;
    std::string dir_;
};

}  // namespace

TEST_CASE("the watchdog is fed while every thread goes round, a quarter of its interval apart") {
    Ear ear;
    Watchdog dog;
    dog.feed(100 * second, {100 * second, 99 * second});
    CHECK(ear.next() == "WATCHDOG=1");
    dog.feed(100 * second + second / 2, {100 * second});
    CHECK(ear.next().empty());
    dog.feed(101 * second, {101 * second});
    CHECK(ear.next() == "WATCHDOG=1");
}

TEST_CASE("one thread that hangs stops the feeding; one that has not begun does not") {
    Ear ear;
    Watchdog dog;
    dog.feed(100 * second, {100 * second, 97 * second});
    CHECK(ear.next().empty());
    dog.feed(100 * second, {100 * second, 0});
    CHECK(ear.next() == "WATCHDOG=1");
}

TEST_CASE("without a service manager nothing is said") {
    Watchdog dog;
    dog.feed(100 * second, {100 * second});
    keep_ring(Uuid{}, 0, 0);
    drop_ring(Uuid{});
    notify_ready("x");
    CHECK(take_passed().rings.empty());
}
