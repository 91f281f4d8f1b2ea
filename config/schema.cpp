// SPDX-License-Identifier: Apache-2.0
//
// What  The kinds of values: how each is read from a TOML node, written back, and what range it has.
#include "config/schema.hpp"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "agent/base/units.hpp"
#include "config/texts.hpp"

namespace tally::config {

namespace {
const toml::node& as_node(const void* p) { return *static_cast<const toml::node*>(p); }
std::string range_text(const std::string& min, const std::string& max) { return min + " to " + max; }
}  // namespace

std::string Problem::line_text() const {
    return file + ":" + std::to_string(line) + ": " + (key.empty() ? "" : key + ": ") + text;
}

void Schema::section(std::string_view name, std::string_view help) { sections_.emplace_back(name, help); }

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

const Schema::Key* Schema::find(std::string_view path) const {
    for (const Key& k : keys_)
        if (k.section + "." + k.name == path) return &k;
    return nullptr;
}

void Schema::text(std::string_view path, std::string& field, std::string_view help) {
    Key& k = add(path, Kind::text, help);
    k.get = [&field] { return in_quotes(without_password(field)); };
    k.set = [&field](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        if (v == nullptr) return "must be a text in quotes";
        field = v->get();
        return "";
    };
    k.default_text = k.get();
}

void Schema::secret(std::string_view path, std::string& field, std::string_view credential, std::string_view help) {
    text(path, field, help);
    Key& k = keys_.back();
    k.kind = Kind::secret;
    k.credential = std::string(credential);
    k.secret_field = &field;
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
    k.range = range_text(std::to_string(min), std::to_string(max));
    k.get = [&field] { return std::to_string(field); };
    k.set = [&field, min, max, range = k.range](const void* node) -> std::string {
        const auto* v = as_node(node).as_integer();
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
    k.range = range_text(bytes_text(min), bytes_text(max));
    k.get = [&field] { return in_quotes(bytes_text(field)); };
    k.set = [&field, min, max, range = k.range](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        if (v == nullptr) return "must be a size with a unit, such as \"64MiB\"";
        const auto parsed = parse_bytes(v->get());
        if (!parsed) return in_quotes(v->get()) + " is no size; write a number and B, KiB, MiB, GiB or TiB, such as \"64MiB\"";
        if (*parsed < min || *parsed > max) return in_quotes(v->get()) + " is out of range, " + range;
        field = *parsed;
        return "";
    };
    k.default_text = k.get();
}

void Schema::rate(std::string_view path, std::uint64_t& field, std::uint64_t min, std::uint64_t max, std::string_view help) {
    Key& k = add(path, Kind::rate, help);
    k.range = range_text(rate_text(min), rate_text(max));
    k.get = [&field] { return in_quotes(rate_text(field)); };
    k.set = [&field, min, max, range = k.range](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        if (v == nullptr) return "must be a rate with a unit, such as \"20Mbit/s\"";
        const auto parsed = parse_rate_bytes(v->get());
        if (!parsed) return in_quotes(v->get()) + " is no rate; write a number and kbit/s, Mbit/s, Gbit/s, MB/s or MiB/s, such as \"20Mbit/s\"";
        if (*parsed < min || *parsed > max) return in_quotes(v->get()) + " is out of range, " + range;
        field = *parsed;
        return "";
    };
    k.default_text = k.get();
}

void Schema::duration(std::string_view path, std::int64_t& field_ns, std::int64_t min_ns, std::int64_t max_ns,
                      std::string_view help) {
    Key& k = add(path, Kind::duration, help);
    k.range = range_text(duration_text(min_ns), duration_text(max_ns));
    k.get = [&field_ns] { return in_quotes(duration_text(field_ns)); };
    k.set = [&field_ns, min_ns, max_ns, range = k.range](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        if (v == nullptr) return "must be a duration with a unit, such as \"50ms\"";
        const auto parsed = parse_duration_ns(v->get());
        if (!parsed) return in_quotes(v->get()) + " is no duration; write a number and us, ms, s, min or h, such as \"50ms\"";
        if (*parsed < min_ns || *parsed > max_ns) return in_quotes(v->get()) + " is out of range, " + range;
        field_ns = *parsed;
        return "";
    };
    k.default_text = k.get();
}

void Schema::choice(std::string_view path, std::vector<Choice> choices, std::function<void(int)> set,
                    std::function<int()> get, std::string_view help) {
    Key& k = add(path, Kind::choice, help);
    for (const Choice& c : choices) k.range += (k.range.empty() ? "" : ", ") + in_quotes(c.name);
    k.get = [choices, get] {
        for (const Choice& c : choices)
            if (c.value == get()) return in_quotes(c.name);
        return std::string("\"\"");
    };
    k.set = [choices, set, range = k.range](const void* node) -> std::string {
        const auto* v = as_node(node).as_string();
        for (const Choice& c : choices) {
            if (v == nullptr || v->get() != c.name) continue;
            set(c.value);
            return "";
        }
        return (v == nullptr ? "must be" : in_quotes(v->get()) + " is unknown; use") + std::string(" one of ") + range;
    };
    k.default_text = k.get();
}

void Schema::required(std::string_view path) { const_cast<Key*>(find(path))->required = true; }
void Schema::reloadable(std::string_view path) { const_cast<Key*>(find(path))->reloadable = true; }
void Schema::example(std::string_view path, std::string_view toml_value) { const_cast<Key*>(find(path))->example = toml_value; }

Problem Schema::problem(std::string_view path, std::string text) const {
    const Key* k = find(path);
    const bool set = k != nullptr && k->line != 0;
    return {set ? k->file : file_, set ? k->line : 1, std::string(path), std::move(text)};
}

int Schema::line_of(std::string_view path) const {
    const Key* k = find(path);
    return k == nullptr ? 0 : k->line;
}

bool Schema::is_set(std::string_view path) const { return line_of(path) != 0; }

}  // namespace tally::config
