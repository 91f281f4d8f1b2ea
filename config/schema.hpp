// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A list of configuration keys bound to option fields: one list for loading, checking, dumping, comparing and documenting.
// Flow    FILE, then FILE.d/*.toml -> Schema::load -> the fields. `check`, `config dump`, the example files, README.md, the man
//         page and reload read the same list.
// Owns    Borrows the bound fields; they must outlive the schema.
// Errors  load() returns every problem it finds, each with file, line and key. With problems the fields are half set: load into
//         a fresh struct and throw it away, so that a bad file changes nothing.
// Limits  Files up to 1 MiB, 256 drop-ins.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::config {

struct Problem {
    std::string file;
    int line = 0;
    std::string key;
    std::string text;  // what is wrong, and what would be right

    std::string line_text() const;  // "file:line: key: text"
};

struct Choice {
    const char* name;
    int value;
};

class Schema {
public:
    // One sentence above the section's keys in the generated files.
    void section(std::string_view name, std::string_view help);
    // `path` is "section.key". `help` is one sentence with the trade-off.
    void text(std::string_view path, std::string& field, std::string_view help);
    // A file that holds a secret; the dump shows its path only. "credential:NAME" means that systemd credential, and a key left
    // out takes the credential of its own name where the unit loads one.
    void secret(std::string_view path, std::string& field, std::string_view credential, std::string_view help);
    void flag(std::string_view path, bool& field, std::string_view help);
    void integer(std::string_view path, std::uint64_t& field, std::uint64_t min, std::uint64_t max, std::string_view help);
    void bytes(std::string_view path, std::uint64_t& field, std::uint64_t min, std::uint64_t max, std::string_view help);
    void rate(std::string_view path, std::uint64_t& bytes_per_s, std::uint64_t min, std::uint64_t max, std::string_view help);
    void duration(std::string_view path, std::int64_t& field_ns, std::int64_t min_ns, std::int64_t max_ns,
                  std::string_view help);
    void choice(std::string_view path, std::vector<Choice> choices, std::function<void(int)> set,
                std::function<int()> get, std::string_view help);
    void required(std::string_view path);
    void reloadable(std::string_view path);                             // SIGHUP applies it; every other key needs a restart
    void example(std::string_view path, std::string_view toml_value);   // set (not commented out) in the example file

    std::vector<Problem> load(const std::string& file);
    // A problem of a key, at the place where it was set (line 1 of the file while it was not).
    Problem problem(std::string_view path, std::string text) const;
    bool is_set(std::string_view path) const;
    int line_of(std::string_view path) const;  // 0: default in force

    struct Value {
        std::string path;
        std::string text;  // as in TOML
        bool reloadable = false;
    };
    std::vector<Value> values() const;
    std::string dump() const;                             // TOML of the values in force
    std::string example_file(std::string_view title) const;  // every key with help, unit, range and default
    std::string markdown() const;                         // a table per section
    std::string roff() const;                             // the same for a manual page

private:
    enum class Kind { text, secret, flag, integer, bytes, rate, duration, choice };
    struct Key {
        std::string section;
        std::string name;
        Kind kind;
        std::string help;
        std::string range;  // "64 KiB to 4 MiB"; empty where anything goes
        std::string default_text;
        std::string example;
        std::string credential;
        std::string* secret_field = nullptr;
        std::function<std::string()> get;                  // as TOML value
        std::function<std::string(const void* node)> set;  // toml::node; empty text when fine
        bool required = false;
        bool reloadable = false;
        std::string file;  // where it was set last; empty: default in force
        int line = 0;
    };
    Key& add(std::string_view path, Kind kind, std::string_view help);
    Key* find(std::string_view section, std::string_view name);
    const Key* find(std::string_view path) const;
    bool knows_section(std::string_view name) const;
    std::string suggestion(std::string_view section, std::string_view name) const;
    std::string section_suggestion(std::string_view section) const;
    std::string section_help(std::string_view name) const;
    std::vector<std::string> section_names() const;
    void load_one(const std::string& file, std::vector<Problem>& problems);
    void take_credentials(std::vector<Problem>& problems);
    static const char* kind_name(Kind kind);

    std::vector<Key> keys_;
    std::vector<std::pair<std::string, std::string>> sections_;
    std::string file_;
};

}  // namespace tally::config
