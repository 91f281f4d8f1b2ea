// SPDX-License-Identifier: Apache-2.0
#include "agent/client/cgroup.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using tally::client::cgroup_headroom;

namespace {

// A membership file and the cgroup folders it names.
struct Tree {
    std::filesystem::path root;
    Tree() {
        char name[] = "/tmp/tally-cgroup-XXXXXX";
        root = ::mkdtemp(name);
    }
    ~Tree() { std::filesystem::remove_all(root); }
    void put(const std::string& file, const std::string& text) const {
        std::filesystem::create_directories((root / file).parent_path());
        std::ofstream(root / file) << text;
    }
    auto headroom() const { return cgroup_headroom((root / "membership").c_str(), (root / "fs").c_str()); }
};

constexpr std::uint64_t none = UINT64_MAX;

}  // namespace

TEST_CASE("without a limit, without files, and with nonsense in them, nothing is limited") {
    Tree t;
    CHECK(t.headroom().bytes == none);
    t.put("membership", "0::/job\n");
    CHECK(t.headroom().bytes == none);
    t.put("fs/job/memory.max", "max\n");
    t.put("fs/job/memory.current", "4096\n");
    CHECK(t.headroom().bytes == none);
    t.put("fs/job/memory.max", "soon\n");
    CHECK(t.headroom().bytes == none);
    t.put("membership", "nonsense\n0:\n::\n0::relative\n");
    CHECK(t.headroom().bytes == none);
}

TEST_CASE("unified: the least of all levels counts, page cache that can go is free") {
    Tree t;
    t.put("membership", "0::/slice/job.scope\n");
    t.put("fs/slice/job.scope/memory.max", "1000000\n");
    t.put("fs/slice/job.scope/memory.current", "400000\n");
    t.put("fs/slice/job.scope/memory.stat", "anon 300000\nactive_inactive_file 7\ninactive_file 100000\n");
    CHECK(t.headroom().bytes == 700000);
    CHECK(std::string(t.headroom().cgroup) == "/slice/job.scope");
    t.put("fs/slice/memory.max", "500000\n");
    t.put("fs/slice/memory.current", "450000\n");
    CHECK(t.headroom().bytes == 50000);
    CHECK(std::string(t.headroom().cgroup) == "/slice");
    t.put("fs/slice/memory.current", "600000\n");  // a limit lowered below what is used
    CHECK(t.headroom().bytes == 0);
}

TEST_CASE("version 1: the memory controller's own hierarchy, alone or listed with others") {
    for (const char* line : {"4:memory:/a/b\n", "4:cpu,memory:/a/b\n", "9:name=systemd:/\n4:memory,cpu:/a/b\n0::/\n"}) {
        Tree t;
        t.put("membership", line);
        t.put("fs/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        t.put("fs/memory/a/b/memory.usage_in_bytes", "1\n");
        CHECK(t.headroom().bytes == none);
        t.put("fs/memory/a/memory.limit_in_bytes", "3000\n");
        t.put("fs/memory/a/memory.usage_in_bytes", "2000\n");
        t.put("fs/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
        CHECK(t.headroom().bytes == 1500);
        CHECK(std::string(t.headroom().cgroup) == "/a");
    }
}

TEST_CASE("in a container the name leads outside, and the mount's root is its own cgroup") {
    Tree t;
    t.put("membership", "0::/../../host/thing\n");
    t.put("fs/memory.max", "8000\n");
    t.put("fs/memory.current", "1000\n");
    CHECK(t.headroom().bytes == 7000);
    CHECK(std::string(t.headroom().cgroup) == "/");
}
