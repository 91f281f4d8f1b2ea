// SPDX-License-Identifier: Apache-2.0
#include "tools/reconcile/report.hpp"

#include <cstdio>

namespace tally::tools::reconcile {

namespace {

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            out += escape;
        } else {
            out += c;
        }
    }
    return out + "\"";
}

std::string number(const char* name, std::uint64_t value) { return quoted(name) + ": " + std::to_string(value); }

std::string pair_json(const char* name, const Pair& p) {
    return quoted(name) + ": {" + number("logged", p.logged) + ", " + number("stored", p.stored) + "}";
}
std::string counted_json(const char* name, const Counted& c) {
    return quoted(name) + ": {" + number("count", c.count) + ", " + number("mismatched", c.mismatched) + "}";
}

}  // namespace

const char* Report::verdict() const {
    if (mismatched != 0) return "mismatch";
    if (undeclared_lost != 0 || declared_lost != 0 || gap_rows != 0) return "loss";
    if (!error.empty() || producers == 0 || open_producers != 0 || missing_producers != 0 || unsettled != 0 || transport_missing != 0)
        return "pending";
    return "exact";
}

int Report::exit_code() const {
    if (!error.empty()) return 1;
    const char v = verdict()[0];
    return v == 'e' ? 0 : v == 'p' ? 3 : 4;
}

std::string Report::json() const {
    std::string out = "{" + quoted("run") + ": " + quoted(run) + ", " + quoted("verdict") + ": " + quoted(verdict()) + ", " +
                      quoted("at") + ": " + quoted(at) + ", " + number("checked", checked) + ", " + number("mismatched", mismatched) + ", " +
                      number("unsettled", unsettled) + ", " + number("open_producers", open_producers) + ", " +
                      number("missing_producers", missing_producers) + ", " + number("physical_duplicates", physical_duplicates) + ", " +
                      quoted("points") + ": {" + number("logged", points.logged) + ", " + number("stored", points.stored) + ", " +
                      number("declared_lost", declared_lost) + "}, " + pair_json("headers", headers) + ", " + pair_json("stats", stats) + ", " +
                      pair_json("events", events) + ", " + counted_json("series", series) + ", " + counted_json("tiles", tiles) + ", " +
                      quoted("transport") + ": {" + number("missing", transport_missing) + "}, " + quoted("gaps") + ": {" +
                      number("count", gap_rows) + "}, " + quoted("first") + ": [";
    for (std::size_t i = 0; i < first.size(); ++i) {
        const Finding& f = first[i];
        out += std::string(i == 0 ? "" : ", ") + "{" + quoted("layer") + ": " + quoted(f.layer) + ", " + quoted("metric") + ": " +
               quoted(f.metric) + ", " + quoted("env") + ": " + quoted(f.env) + ", " + quoted("step") + ": " + quoted(f.step) + ", " +
               quoted("expected") + ": " + quoted(f.expected) + ", " + quoted("found") + ": " + quoted(f.found) + "}";
    }
    out += "]";
    if (!error.empty()) out += ", " + quoted("error") + ": " + quoted(error);
    return out + "}\n";
}

std::string Report::text() const {
    if (!error.empty()) return "reconcile " + run + ": no proof: " + error + "\n";
    std::string out = "reconcile " + run + " (at " + at + "): " + verdict() + "\n";
    const auto line = [&](const char* layer, const std::string& what) { out += "  " + std::string(layer) + what + "\n"; };
    const auto both = [](const Pair& p) { return std::to_string(p.logged) + " logged, " + std::to_string(p.stored) + " there"; };
    line("transport  ", std::to_string(transport_missing) + " sequences missing");
    line("producers  ", std::to_string(producers) + " known, " + std::to_string(open_producers) + " open, " +
                            std::to_string(missing_producers) + " missing");
    line("headers    ", both(headers));
    line("stats      ", both(stats));
    line("events     ", both(events));
    line("points     ", both(points) + ", " + std::to_string(declared_lost) + " declared lost, " + std::to_string(checked) + " proven by value");
    line("series     ", std::to_string(series.count) + ", " + std::to_string(series.mismatched) + " mismatched");
    line("tiles      ", std::to_string(tiles.count) + ", " + std::to_string(tiles.mismatched) + " mismatched");
    line("gaps       ", std::to_string(gap_rows) + " declared");
    if (physical_duplicates != 0) line("duplicates ", std::to_string(physical_duplicates) + " rows twice under one key, counted once");
    for (const Finding& f : first)
        line("! ", f.layer + (f.metric.empty() ? "" : " metric " + f.metric) + (f.env.empty() ? "" : " env " + f.env) +
                       (f.step.empty() ? "" : " step " + f.step) + ": expected " + f.expected + ", found " + f.found);
    return out;
}

}  // namespace tally::tools::reconcile
