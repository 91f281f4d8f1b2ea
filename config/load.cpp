// SPDX-License-Identifier: Apache-2.0
//
// What  Reads a file and its drop-ins into the bound fields, and names everything that is wrong.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "agent/base/fd.hpp"
#include "config/schema.hpp"
#include "config/texts.hpp"

namespace tally::config {

namespace {

constexpr std::size_t file_bytes_max = 1U << 20;
constexpr std::size_t drop_ins_max = 256;
constexpr std::string_view credential_prefix = "credential:";
// Farther than this is no typing slip.
constexpr std::size_t slip_max = 3;

int source_line(const toml::node& n) { return static_cast<int>(n.source().begin.line); }

// FILE.d/*.toml by name; editors' leftovers (".x.swp", "x.toml~") are not ours.
std::vector<std::string> drop_ins(const std::string& file, std::vector<Problem>& problems) {
    std::vector<std::string> out;
    std::error_code ec;
    const std::string dir = file + ".d";
    for (std::filesystem::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec)) {
        const std::string name = it->path().filename().string();
        if (!name.starts_with(".") && name.ends_with(".toml")) out.push_back(it->path().string());
    }
    if (ec && ec != std::errc::no_such_file_or_directory) problems.push_back({dir, 0, "", "cannot be read: " + ec.message()});
    if (out.size() > drop_ins_max) problems.push_back({dir, 0, "", "more than 256 files"});
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace

std::vector<Problem> Schema::load(const std::string& file) {
    file_ = file;
    std::vector<Problem> problems;
    load_one(file, problems);
    for (const std::string& extra : drop_ins(file, problems)) load_one(extra, problems);
    take_credentials(problems);
    for (const Key& k : keys_)
        if (k.required && k.line == 0) problems.push_back({file, 1, k.section + "." + k.name, "is missing; " + k.help});
    return problems;
}

void Schema::load_one(const std::string& file, std::vector<Problem>& problems) {
    const auto content = read_file(file, file_bytes_max);
    if (!content) {
        problems.push_back({file, 0, "", "cannot be read: " + content.error().text()});
        return;
    }
    const toml::parse_result parsed = toml::parse(as_text(*content), file);
    if (!parsed) {
        const auto& e = parsed.error();
        problems.push_back({file, static_cast<int>(e.source().begin.line), "", std::string(e.description())});
        return;
    }
    const std::size_t first = problems.size();
    for (const auto& [section, node] : parsed.table()) {
        const std::string section_name(section.str());
        const bool known = knows_section(section_name);
        const toml::table* table = node.as_table();
        if (!known || table == nullptr) {
            const char* what = known ? "must be a [section]" : table != nullptr ? "unknown section" : "unknown key outside a section";
            problems.push_back({file, source_line(node), section_name, what + (known ? "" : section_suggestion(section_name))});
            continue;
        }
        for (const auto& [name, value] : *table) {
            const std::string key_name(name.str());
            Key* key = find(section_name, key_name);
            const std::string path = section_name + "." + key_name;
            if (key == nullptr) {
                problems.push_back({file, source_line(value), path, "unknown key" + suggestion(section_name, key_name)});
                continue;
            }
            key->file = file;
            key->line = source_line(value);
            const std::string wrong = key->set(&value);
            if (!wrong.empty()) problems.push_back({file, key->line, path, wrong});
        }
    }
    // toml++ walks its table by name; people read a file by line.
    std::stable_sort(problems.begin() + static_cast<std::ptrdiff_t>(first), problems.end(),
                     [](const Problem& a, const Problem& b) { return a.line < b.line; });
}

void Schema::take_credentials(std::vector<Problem>& problems) {
    const char* dir = std::getenv("CREDENTIALS_DIRECTORY");
    if (dir == nullptr || *dir == 0) return;
    for (Key& k : keys_) {
        if (k.kind != Kind::secret) continue;
        std::string& field = *k.secret_field;
        const bool named = field.starts_with(credential_prefix);
        if (!named && k.line != 0) continue;
        const std::string name = named ? field.substr(credential_prefix.size()) : k.credential;
        const std::string path = std::string(dir) + "/" + name;
        std::error_code ec;
        if (name.find('/') == std::string::npos && std::filesystem::exists(path, ec)) {
            field = path;
            if (!named) k.file = path, k.line = 1;
        } else if (named) {
            problems.push_back(problem(k.section + "." + k.name, "the unit loads no credential " + in_quotes(name) +
                                                                     "; add LoadCredential=" + name + ":/path to it"));
        }
    }
}

bool Schema::knows_section(std::string_view name) const {
    return std::any_of(keys_.begin(), keys_.end(), [&](const Key& k) { return k.section == name; });
}

std::string Schema::suggestion(std::string_view section, std::string_view name) const {
    std::size_t best = slip_max + 1;
    std::string out;
    for (const Key& k : keys_) {
        const std::size_t d = distance(name, k.name) + (k.section == section ? 0 : 1);
        if (d < best) {
            best = d;
            out = k.section == section ? k.name : "[" + k.section + "] " + k.name;
        }
    }
    return out.empty() ? "" : "; did you mean " + out + "?";
}

std::string Schema::section_suggestion(std::string_view section) const {
    std::size_t best = slip_max + 1;
    std::string out;
    for (const Key& k : keys_) {
        const std::size_t d = distance(section, k.section);
        if (d >= best) continue;
        best = d;
        out = "; did you mean [" + k.section + "]?";
    }
    return out;
}

}  // namespace tally::config
