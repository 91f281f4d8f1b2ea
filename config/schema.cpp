// SPDX-License-Identifier: Apache-2.0
#include "config/schema.hpp"

#include <algorithm>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "agent/base/fd.hpp"
#include "agent/base/units.hpp"

namespace tally::config {

namespace {

constexpr std::size_t file_bytes_max = 1U << 20;

std::string quoted(std::string_view s) {
    std::string out = "\"";
    for (const char c : s) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

// Edits needed to turn one name into the other; small words only.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
            diagonal = above;
        }
    }
    return row[b.size()];
}

const toml::node& as_node(const void* p) { return *static_cast<const toml::node*>(p); }

std::string duration_text(std::int64_t ns) {
    struct Step {
        std::int64_t factor;
        const char* unit;
    };
    constexpr Step steps[] = {{3'600'000'000'000, "h"}, {60'000'000'000, "min"}, {1'000'000'000, "s"},
                              {1'000'000, "ms"},        {1'000, "us"}};
    for (const Step& s : steps)
        if (ns != 0 && ns % s.factor == 0) return std::to_string(ns / s.factor) + s.unit;
    return std::to_string(ns) + "ns";
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t u = 0;
    while (bytes != 0 && bytes % 1024 == 0 && u + 1 < std::size(units)) {
        bytes /= 1024;
        ++u;
    }
    return std::to_string(bytes) + units[u];
}

}  // namespace

std::string Problem::line_text() const {
    return file + ":" + std::to_string(line) + ": " + (key.empty() ? "" : key + ": ") + text;
}

Schema::Key& Schema::add(std::string_view path, Kind kind, std::string_view help) {
    const auto dot = path.find('.');
    Key key;
    key.section = std::string(path.substr(0, dot));
    key.name = std::string(path.substr(dot + 1));
    key.kind = kind;
    key.help = std::string(help);
    keys_.push_back(std::move(key));
    return keys_.back();
}

Schema::Key* Schema::find(std::string_view section, std::string_view name) {
    for (Key& k : keys_)
        if (k.section == section && k.name == name) return &k;
    return nullptr;
}

void Schema::text(std::string_view path, std::string& field, std::string_view help) {
    Key& k = add(path, Kind::text, help);
    k.get = [&field] { return quoted(field); };
    k.set = [&field](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        if (v == nullptr) return "must be a text in quotes";
        field = v->get();
        return "";
    };
    k.default_text = k.get();
}

void Schema::flag(std::string_view path, bool& field, std::string_view help) {
    Key& k = add(path, Kind::flag, help);
    k.get = [&field] { return std::string(field ? "true" : "false"); };
    k.set = [&field](const void* node) -> std::string {
        const auto* v = as_node(node).as_boolean();
        if (v == nullptr) return "must be true or false";
        field = v->get();
        return "";
    };
    k.default_text = k.get();
}

void Schema::integer(std::string_view path, std::uint64_t& field, std::uint64_t min, std::uint64_t max,
                     std::string_view help) {
    Key& k = add(path, Kind::integer, help);
    k.get = [&field] { return std::to_string(field); };
    k.set = [&field, min, max](const void* node) -> std::string {
        const auto* v = as_node(node).as_integer();
        const std::string range = std::to_string(min) + " to " + std::to_string(max);
        if (v == nullptr) return "must be a whole number, " + range;
        if (v->get() < 0 || static_cast<std::uint64_t>(v->get()) < min || static_cast<std::uint64_t>(v->get()) > max)
            return std::to_string(v->get()) + " is out of range, " + range;
        field = static_cast<std::uint64_t>(v->get());
        return "";
    };
    k.default_text = k.get();
}

void Schema::bytes(std::string_view path, std::uint64_t& field, std::uint64_t min, std::uint64_t max,
                   std::string_view help) {
    Key& k = add(path, Kind::bytes, help);
    k.get = [&field] { return quoted(bytes_text(field)); };
    k.set = [&field, min, max](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        if (v == nullptr) return "must be a size with a unit, such as \"64MiB\"";
        const auto parsed = parse_bytes(v->get());
        if (!parsed) return quoted(v->get()) + " is no size; write a number and B, KiB, MiB, GiB or TiB, such as \"64MiB\"";
        if (*parsed < min || *parsed > max)
            return quoted(v->get()) + " is out of range, " + bytes_text(min) + " to " + bytes_text(max);
        field = *parsed;
        return "";
    };
    k.default_text = k.get();
}

void Schema::duration(std::string_view path, std::int64_t& field_ns, std::int64_t min_ns, std::int64_t max_ns,
                      std::string_view help) {
    Key& k = add(path, Kind::duration, help);
    k.get = [&field_ns] { return quoted(duration_text(field_ns)); };
    k.set = [&field_ns, min_ns, max_ns](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        if (v == nullptr) return "must be a duration with a unit, such as \"50ms\"";
        const auto parsed = parse_duration_ns(v->get());
        if (!parsed) return quoted(v->get()) + " is no duration; write a number and us, ms, s, min or h, such as \"50ms\"";
        if (*parsed < min_ns || *parsed > max_ns)
            return quoted(v->get()) + " is out of range, " + duration_text(min_ns) + " to " + duration_text(max_ns);
        field_ns = *parsed;
        return "";
    };
    k.default_text = k.get();
}

void Schema::choice(std::string_view path, std::vector<Choice> choices, std::function<void(int)> set,
                    std::function<int()> get, std::string_view help) {
    Key& k = add(path, Kind::choice, help);
    k.get = [choices, get] {
        for (const Choice& c : choices)
            if (c.value == get()) return quoted(c.name);
        return std::string("\"\"");
    };
    k.set = [choices, set](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        std::string names;
        for (const Choice& c : choices) {
            if (v != nullptr && v->get() == c.name) {
                set(c.value);
                return "";
            }
            names += (names.empty() ? "\"" : ", \"") + std::string(c.name) + "\"";
        }
        return (v == nullptr ? "must be" : quoted(v->get()) + " is unknown; use") + std::string(" one of ") + names;
    };
    k.default_text = k.get();
}

void Schema::required(std::string_view path) {
    const auto dot = path.find('.');
    find(path.substr(0, dot), path.substr(dot + 1))->required = true;
}

int Schema::line_of(std::string_view path) const {
    for (const Key& k : keys_)
        if (k.section + "." + k.name == path) return k.line;
    return 0;
}

std::string Schema::suggestion(std::string_view section, std::string_view name) const {
    std::size_t best = 4;  // farther than this is no typing slip
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
    for (const Key& k : keys_)
        if (distance(section, k.section) < 4) return "; did you mean [" + k.section + "]?";
    return "";
}

std::vector<Problem> Schema::load(const std::string& file) {
    const auto content = read_file(file, file_bytes_max);
    if (!content) return {{file, 0, "", "cannot be read: " + content.error().text()}};
    const toml::parse_result parsed = toml::parse(as_text(*content), file);
    if (!parsed) {
        const auto& e = parsed.error();
        return {{file, static_cast<int>(e.source().begin.line), "", std::string(e.description())}};
    }
    std::vector<Problem> problems;
    const auto line = [](const toml::node& n) { return static_cast<int>(n.source().begin.line); };
    for (const auto& [section, node] : parsed.table()) {
        const std::string section_name(section.str());
        const bool known = std::any_of(keys_.begin(), keys_.end(), [&](const Key& k) { return k.section == section_name; });
        const toml::table* table = node.as_table();
        if (!known || table == nullptr) {
            const char* what = known ? "must be a [section]" : table != nullptr ? "unknown section" : "unknown key outside a section";
            problems.push_back({file, line(node), section_name, what + (known ? "" : section_suggestion(section_name))});
            continue;
        }
        for (const auto& [name, value] : *table) {
            const std::string key_name(name.str());
            Key* key = find(section_name, key_name);
            const std::string path = section_name + "." + key_name;
            if (key == nullptr) {
                problems.push_back({file, line(value), path, "unknown key" + suggestion(section_name, key_name)});
                continue;
            }
            key->line = line(value);
            const std::string wrong = key->set(&value);
            if (!wrong.empty()) problems.push_back({file, key->line, path, wrong});
        }
    }
    for (const Key& k : keys_)
        if (k.required && k.line == 0) problems.push_back({file, 1, k.section + "." + k.name, "is missing; " + k.help});
    std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) { return a.line < b.line; });
    return problems;
}

std::string Schema::dump() const {
    std::string out;
    std::string section;
    for (const Key& k : keys_) {
        if (k.section != section) {
            out += (out.empty() ? "[" : "\n[") + k.section + "]\n";
            section = k.section;
        }
        out += k.name + " = " + k.get() + "\n";
    }
    return out;
}

std::string Schema::reference() const {
    std::string out;
    for (const Key& k : keys_) out += k.section + "." + k.name + " = " + k.default_text + "  # " + k.help + "\n";
    return out;
}

}  // namespace tally::config
