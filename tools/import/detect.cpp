// SPDX-License-Identifier: Apache-2.0
//
// What    Which format a file is, from its first bytes.
#include <algorithm>

#include "tools/import/flatten.hpp"
#include "tools/import/reader.hpp"

namespace tally::import {

namespace {

Opened not_a_log(const char* what) { return {nullptr, what, false}; }

bool is_text(std::string_view head) {
    return std::none_of(head.begin(), head.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f'; });
}

bool is_object(std::string_view text) {
    Names names;
    Row row;
    return flatten(text, {}, names, row);
}

Opened open_json(std::string_view head, bool whole) {
    const std::size_t end = head.find('\n');
    if (end != head.npos && is_object(head.substr(0, end))) return {open_json_lines(), "", false};
    if (!whole) return head.find("\"log_history\"") != head.npos ? Opened{open_json_document(), "", false}
                                                                : not_a_log("a JSON document without log_history");
    Names names;
    Row row;
    if (flatten_list(head, "log_history", names, row, [](const Row&) { return true; })) return {open_json_document(), "", false};
    if (is_object(head)) return not_a_log("a JSON document (a configuration or a summary), not a log");
    return {nullptr, "neither JSON lines nor a whole JSON document", true};
}

// Two lines with the same count of delimiters, or a header alone.
Opened open_table(std::string_view head, bool whole) {
    head = head.substr(0, head.find_last_not_of('\0') + 1);  // zeros at the end were not written yet
    if (!is_text(head.substr(0, std::min<std::size_t>(head.size(), 4096)))) return not_a_log("binary data of no known kind");
    std::string_view rest = head;
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        if (end == rest.npos && !whole) return {nullptr, "no whole line yet", true};
        const std::string_view line = without_blanks(rest.substr(0, end == rest.npos ? rest.size() : end));
        rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
        if (line.empty() || line == "\r" || line.front() == '#') continue;
        if (line.find_first_of(",\t;") == line.npos) return not_a_log("text without columns");
        return {open_csv(), "", false};
    }
    return {nullptr, "no line that is not a comment", true};
}

}  // namespace

Opened open_reader(std::string_view head, bool whole) {
    if (looks_like_wandb(head)) return {open_wandb(), "", false};
    if (looks_like_tfevents(head)) return {open_tfevents(), "", false};
    if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
    const std::size_t text = head.find_first_not_of(" \t\r\n");
    if (text == head.npos) return {nullptr, "empty", true};
    if (head[text] == '\0') return {nullptr, "zeros: not written yet", true};
    if (head[text] == '{') return open_json(head.substr(text), whole);
    return open_table(head.substr(text), whole);
}

}  // namespace tally::import
