// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <array>
#include <csignal>

#include "tests/unit/sink/kit.hpp"

using namespace tally;

namespace {

struct Ended {
    int status = 0;
    std::string out;
};

Ended run_child(const std::string& dir, const std::string& fault) {
    const auto self = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sink_child";
    const std::string command = "exec env " + (fault.empty() ? "-u TALLYMAN_FAULT_POINT " : "TALLYMAN_FAULT_POINT=" + fault + " ") + self.string() +
                                " " + dir + " 2>" + dir + "/err";
    Ended ended;
    FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::array<char, 512> buffer{};
    while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) ended.out += buffer.data();
    ended.status = ::pclose(pipe);
    return ended;
}

std::string expected() {
    kit::Producer p("crash");
    (void)p.live({parcel::ProducerWhat::opened}, false);
    (void)kit::everything(p);
    return " points " + std::to_string(p.points.size()) + " ";
}

}  // namespace

TEST_CASE("a sink killed at any point of a batch stores every point once") {
    if (!kit::have_chdb()) return;
    const std::string points = expected();
    for (const char* fault : {"plan-written", "some-tables-inserted:1", "some-tables-inserted:4", "insert-done", "done-written"}) {
        CAPTURE(std::string(fault));
        const kit::TempDir dir;
        const Ended killed = run_child(dir.path, fault);
        REQUIRE(WIFSIGNALED(killed.status));
        REQUIRE(WTERMSIG(killed.status) == SIGKILL);
        // Once more inside recovery, where that point lies on its way.
        (void)run_child(dir.path, "some-tables-inserted:1");
        const Ended ended = run_child(dir.path, "");
        INFO(ended.out);
        REQUIRE(WIFEXITED(ended.status));
        CHECK(WEXITSTATUS(ended.status) == 0);
        CHECK(ended.out.find(points) != std::string::npos);
        CHECK(ended.out.find(" parcels 5 events 1\n") != std::string::npos);
        const auto number_after = [&](const std::string& word) {
            return std::strtoull(ended.out.c_str() + ended.out.find(word) + word.size(), nullptr, 10);
        };
        CHECK(number_after(" rows ") == number_after(" unique "));
    }
}
