// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A folder with configuration files in it, removed at the end.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "config/files.hpp"

namespace tally::test {

class Folder {
public:
    Folder() {
        char name[] = "/tmp/tally-config-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string write(const std::string& name, const std::string& text) const {
        const std::filesystem::path file = path_ / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
        return file.string();
    }
    std::string path(const std::string& name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

inline std::string lines(const std::vector<config::Problem>& problems) {
    std::string out;
    for (const config::Problem& p : problems) out += p.line_text() + "\n";
    return out;
}

// The smallest agent.toml and receiver.toml, with `more` behind.
inline std::string agent_text(const std::string& more = "") {
    return "[spool]\ndir = \"/s\"\n[uplink]\ntoken_file = \"/t\"\n" + more;
}
inline std::string receiver_text(const std::string& more = "") {
    return "[receiver]\ntoken_file = \"/t\"\ninsecure = true\n[landing]\ndir = \"/l\"\n" + more;
}

}  // namespace tally::test
