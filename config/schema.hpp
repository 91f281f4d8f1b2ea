// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    A list of configuration keys bound to option fields: one list for loading, checking, dumping and documenting.
// Flow    TOML file -> Schema::load -> the fields; `tallyman check`, `config dump` and the docs read the same list.
// Owns    Borrows the bound fields; they must outlive the schema.
// Errors  load() returns every problem it finds, each with file, line and key; fields are set only where there is none.
// Limits  Files up to 1 MiB.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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
    // `path` is "section.key". `help` is one sentence with the trade-off.
    void text(std::string_view path, std::string& field, std::string_view help);
    void flag(std::string_view path, bool& field, std::string_view help);
    void integer(std::string_view path, std::uint64_t& field, std::uint64_t min, std::uint64_t max, std::string_view help);
    void bytes(std::string_view path, std::uint64_t& field, std::uint64_t min, std::uint64_t max, std::string_view help);
    void duration(std::string_view path, std::int64_t& field_ns, std::int64_t min_ns, std::int64_t max_ns,
                  std::string_view help);
    void choice(std::string_view path, std::vector<Choice> choices, std::function<void(int)> set,
                std::function<int()> get, std::string_view help);
    void required(std::string_view path);

    std::vector<Problem> load(const std::string& file);
    // Line of a key in the loaded file (0: default in force), for checks that span keys.
    int line_of(std::string_view path) const;
    std::string dump() const;       // TOML of the values in force
    std::string reference() const;  // one line per key: name, default, help

private:
    enum class Kind { text, flag, integer, bytes, duration, choice };
    struct Key {
        std::string section;
        std::string name;
        Kind kind;
        std::string help;
        std::string default_text;
        std::function<std::string()> get;                                       // as TOML value
        std::function<std::string(const void* node)> set;  // toml::node; empty text when fine
        bool required = false;
        int line = 0;
    };
    Key& add(std::string_view path, Kind kind, std::string_view help);
    Key* find(std::string_view section, std::string_view name);
    std::string suggestion(std::string_view section, std::string_view name) const;
    std::string section_suggestion(std::string_view section) const;

    std::vector<Key> keys_;
};

}  // namespace tally::config
