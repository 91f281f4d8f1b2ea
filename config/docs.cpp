// SPDX-License-Identifier: Apache-2.0
//
// What  What people read, made from the list of keys: values in force, example file, README table, manual page.
#include <algorithm>

#include "config/schema.hpp"

namespace tally::config {

namespace {

constexpr std::size_t comment_columns = 116;

// "# " lines no longer than the house's width.
std::string comment(const std::string& text) {
    std::string out;
    std::string line = "#";
    std::size_t at = 0;
    while (at < text.size()) {
        const auto space = std::min(text.find(' ', at), text.size());
        const std::string word = text.substr(at, space - at);
        if (line.size() > 1 && line.size() + 1 + word.size() > comment_columns) {
            out += line + "\n";
            line = "#";
        }
        line += " " + word;
        at = space + 1;
    }
    return out + line + "\n";
}

std::string table_cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
}

std::string roff_text(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '-') out += '\\';
        if (c == '\'' && (out.empty() || out.back() == '\n')) out += "\\&";
        out += c;
    }
    return out;
}

}  // namespace

const char* Schema::kind_name(Kind kind) {
    switch (kind) {
        case Kind::text: return "text";
        case Kind::secret: return "file";
        case Kind::flag: return "true or false";
        case Kind::integer: return "number";
        case Kind::bytes: return "size";
        case Kind::rate: return "rate";
        case Kind::duration: return "duration";
        case Kind::choice: return "one of";
    }
    return "";
}

std::vector<std::string> Schema::section_names() const {
    std::vector<std::string> out;
    for (const Key& k : keys_)
        if (std::find(out.begin(), out.end(), k.section) == out.end()) out.push_back(k.section);
    return out;
}

std::string Schema::section_help(std::string_view name) const {
    for (const auto& [section, help] : sections_)
        if (section == name) return help;
    return "";
}

std::vector<Schema::Value> Schema::values() const {
    std::vector<Value> out;
    for (const Key& k : keys_) out.push_back({k.section + "." + k.name, k.get(), k.reloadable});
    return out;
}

std::string Schema::dump() const {
    std::string out;
    for (const std::string& section : section_names()) {
        out += (out.empty() ? "[" : "\n[") + section + "]\n";
        for (const Key& k : keys_)
            if (k.section == section) out += k.name + " = " + k.get() + "\n";
    }
    return out;
}

std::string Schema::example_file(std::string_view title) const {
    std::string out = comment(std::string(title));
    out += comment("Files in the folder of the same name with .d behind it (*.toml, in the order of their names) are read after this "
                   "one; what they set wins. An unknown key is an error. Lines that begin with # show defaults.");
    for (const std::string& section : section_names()) {
        out += "\n[" + section + "]\n";
        if (const std::string help = section_help(section); !help.empty()) out += comment(help);
        for (const Key& k : keys_) {
            if (k.section != section) continue;
            std::string about = k.help + ". " + kind_name(k.kind) + (k.range.empty() ? "" : (k.kind == Kind::choice ? " " : ", ") + k.range);
            if (k.reloadable) about += "; reload applies it";
            out += "\n" + comment(about);
            out += k.example.empty() ? "#" + k.name + " = " + k.default_text + "\n" : k.name + " = " + k.example + "\n";
        }
    }
    return out;
}

std::string Schema::markdown() const {
    std::string out;
    for (const std::string& section : section_names()) {
        out += "\n**[" + section + "]** " + section_help(section) + "\n\n| key | default | what |\n|---|---|---|\n";
        for (const Key& k : keys_) {
            if (k.section != section) continue;
            const std::string range = k.range.empty() ? "" : " (" + std::string(k.kind == Kind::choice ? "" : std::string(kind_name(k.kind)) + ", ") + k.range + ")";
            out += "| `" + k.name + "`" + (k.reloadable ? " *" : "") + " | " + (k.required ? "required" : "`" + table_cell(k.default_text) + "`") +
                   " | " + table_cell(k.help + range) + " |\n";
        }
    }
    return out;
}

std::string Schema::roff() const {
    std::string out;
    for (const std::string& section : section_names()) {
        out += ".SS [" + section + "]\n" + roff_text(section_help(section)) + "\n";
        for (const Key& k : keys_) {
            if (k.section != section) continue;
            out += ".TP\n.B " + roff_text(k.name) + "\n" + roff_text(k.help) + ".\n";
            out += roff_text(kind_name(k.kind)) + (k.range.empty() ? "" : " " + roff_text(k.range)) + "; " +
                   (k.required ? "required" : "default " + roff_text(k.default_text)) + (k.reloadable ? "; reload applies it" : "") + ".\n";
        }
    }
    return out;
}

}  // namespace tally::config
