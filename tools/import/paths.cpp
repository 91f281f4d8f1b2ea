// SPDX-License-Identifier: Apache-2.0
#include "tools/import/paths.hpp"

#include <algorithm>
#include <filesystem>

#include "agent/base/types.hpp"

namespace tally::import {

namespace fs = std::filesystem;

namespace {

bool is_events_name(const std::string& name) { return name.find("tfevents") != name.npos; }

// In a directory only names that logs have are looked into.
bool is_log_name(const std::string& name) {
    if (name.starts_with('.')) return false;
    if (is_events_name(name)) return true;
    const std::string ending = fs::path(name).extension();
    if (ending == ".txt") return name == "progress.txt";  // Spinning Up; any other text is somebody's notes
    return ending == ".csv" || ending == ".json" || ending == ".jsonl" || ending == ".wandb" || ending == ".log";
}

std::vector<std::string> logs_in(const fs::path& dir, std::vector<std::string>& errors) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
        std::error_code unreadable;
        if (it->is_regular_file(unreadable) && is_log_name(it->path().filename())) names.push_back(it->path().filename());
    }
    if (error) errors.push_back(dir.string() + ": " + error.message());
    std::sort(names.begin(), names.end());
    if (std::find(names.begin(), names.end(), "result.json") != names.end()) {
        std::erase_if(names, [](const std::string& n) { return n == "progress.csv" || is_events_name(n); });
    }
    return names;
}

void add_directory(const fs::path& root, const fs::path& dir, const std::string& run, std::vector<Candidate>& out, std::vector<std::string>& errors) {
    const fs::path below = dir.lexically_relative(root);
    std::string id = run;
    if (id.empty()) id = run_id_of(root.filename().string() + (below == "." ? "" : "." + below.generic_string()));
    for (const std::string& name : logs_in(dir, errors)) out.push_back({(dir / name).string(), id, false});
    std::vector<fs::path> deeper;
    std::error_code error;
    for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
        std::error_code unreadable;
        const bool real = it->is_directory(unreadable) && !it->is_symlink(unreadable);
        if (real && !it->path().filename().string().starts_with('.')) deeper.push_back(it->path());
    }
    std::sort(deeper.begin(), deeper.end());
    for (const fs::path& d : deeper) add_directory(root, d, run, out, errors);
}

}  // namespace

std::string run_id_of(const std::string& text) {
    std::string id = text.substr(0, 128);
    for (char& c : id) {
        const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
        if (!fits) c = c == '/' ? '.' : '-';
    }
    return id.empty() ? "import" : id;
}

std::vector<Candidate> find_logs(const std::vector<std::string>& paths, const std::string& run, std::vector<std::string>& errors) {
    std::vector<Candidate> out;
    for (const std::string& p : paths) {
        std::error_code error;
        fs::path path = fs::absolute(p, error).lexically_normal();
        if (!path.has_filename()) path = path.parent_path();
        const auto kind = fs::status(path, error);
        if (!fs::exists(kind)) {
            errors.push_back(p + ": " + (error ? error.message() : "no such file or directory"));
        } else if (fs::is_directory(kind)) {
            const std::size_t before = out.size();
            add_directory(path, path, run, out, errors);
            if (out.size() == before) errors.push_back(p + ": no logs in this directory");
        } else {
            out.push_back({path.string(), run.empty() ? run_id_of(path.stem().string()) : run, true});
        }
    }
    return out;
}

}  // namespace tally::import
