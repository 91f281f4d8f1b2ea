// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "agent/base/types.hpp"
#include "tools/import/paths.hpp"

using namespace tally::import;
namespace fs = std::filesystem;

namespace {

struct Tree {
    fs::path root;
    Tree() {
        char name[] = "/tmp/tally-paths-XXXXXX";
        root = ::mkdtemp(name);
    }
    ~Tree() { fs::remove_all(root); }
    void file(const std::string& path) {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << "x";
    }
};

}  // namespace

TEST_CASE("any text becomes a run id that is valid") {
    CHECK(run_id_of("a b/c\xC3\xA9") == "a-b.c--");
    for (const std::string& text : {std::string(), std::string(500, 'x'), std::string("\0\n", 2)}) CHECK(tally::run_id_valid(run_id_of(text)));
}

TEST_CASE("where Ray wrote result.json its copies are not taken a second time") {
    Tree t;
    for (const char* name : {"result.json", "progress.csv", "events.out.tfevents.1", "params.json", "notes.txt", ".hidden.csv"}) t.file(name);
    std::vector<std::string> errors;
    const auto found = find_logs({t.root}, "", errors);
    REQUIRE(found.size() == 2);
    CHECK(fs::path(found[0].path).filename() == "params.json");  // looked into, and named as no log
    CHECK(fs::path(found[1].path).filename() == "result.json");
    CHECK_FALSE(found[0].named);
    CHECK(errors.empty());
}

TEST_CASE("what is not there is an error, a file goes to a run of its own") {
    Tree t;
    t.file("x.csv");
    std::vector<std::string> errors;
    CHECK(find_logs({(t.root / "none").string()}, "", errors).empty());
    CHECK(errors.size() == 1);
    const auto found = find_logs({(t.root / "x.csv").string(), t.root.string() + "/"}, "", errors);
    REQUIRE(found.size() == 2);
    CHECK(found[0].run == "x");
    CHECK(found[0].named);
    CHECK(found[1].run == t.root.filename().string());
}
