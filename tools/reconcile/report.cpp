// SPDX-License-Identifier: Apache-2.0
#include "tools/reconcile/report.hpp"

#include <cstdio>

namespace tally::reconcile {

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
std::string checked_json(const char* name, const Checked& c) {
    return quoted(name) + ": {" + number("count", c.count) + ", " + number("mismatched", c.mismatched) + "}";
}

}  // namespace

void judge(Report& r, bool settled) {
    const bool short_of = r.points_stored + r.points_declared_lost < r.points_logged || r.headers.stored < r.headers.logged ||
                          r.stats.stored < r.stats.logged;
    const bool differs = short_of || r.series.mismatched != 0 || r.unsettled != 0 || r.transport.mismatched != 0;
    if (r.mismatched != 0) {
        r.verdict = "mismatch";
        r.why = "something is stored that was not logged so";
    } else if (r.points_declared_lost != 0 || r.gap_rows != 0) {
        r.verdict = "loss";
        r.why = "losses were declared where they happened";
    } else if (r.undeclared_lost != 0 || (settled && differs)) {
        r.verdict = "loss";
        r.why = "something that was logged is missing and was not declared";
    } else if (r.producers == 0) {
        r.verdict = "pending";
        r.why = "no producer of this run is known here";
    } else if (r.open_producers != 0 || r.missing_producers != 0) {
        r.verdict = "pending";
        r.why = "producers are open or missing";
    } else if (r.not_stored != 0) {
        r.verdict = "pending";
        r.why = std::to_string(r.not_stored) + " received parcels are not in the store yet; they may hold more of this run";
    } else if (differs) {
        r.verdict = "pending";
        r.why = "not everything that was logged has arrived";
    } else {
        r.verdict = "exact";
        r.why.clear();
    }
}

int Report::exit_code() const { return verdict == "exact" ? 0 : verdict == "pending" ? 3 : 4; }

std::string Report::json() const {
    std::string out = "{" + quoted("run") + ": " + quoted(run) + ", " + quoted("verdict") + ": " + quoted(verdict) + ", " + quoted("why") + ": " +
                      quoted(why) + ", " + number("checked", checked) + ", " + number("mismatched", mismatched) + ", " +
                      number("unsettled", unsettled) + ", " + number("not_stored", not_stored) + ", " + number("producers", producers) + ", " + number("open_producers", open_producers) + ", " +
                      number("missing_producers", missing_producers) + ", " + number("physical_duplicates", physical_duplicates) + ", " +
                      quoted("points") + ": {" + number("logged", points_logged) + ", " + number("stored", points_stored) + ", " +
                      number("declared_lost", points_declared_lost) + "}, " + pair_json("headers", headers) + ", " + pair_json("stats", stats) +
                      ", " + pair_json("events", events) + ", " + checked_json("series", series) + ", " + checked_json("tiles", tiles) + ", " +
                      checked_json("transport", transport) + ", " + quoted("gaps") + ": {" + number("count", gap_rows) + "}, " +
                      quoted("seconds") + ": " + std::to_string(seconds) + ", " + quoted("first") + ": [";
    for (std::size_t i = 0; i < first.size(); ++i) {
        const Finding& f = first[i];
        out += std::string(i == 0 ? "" : ", ") + "{" + quoted("layer") + ": " + quoted(f.layer) + ", " + quoted("metric") + ": " +
               quoted(f.metric) + ", " + quoted("env") + ": " + (f.env < 0 ? "null" : std::to_string(f.env)) + ", " + quoted("step") + ": " +
               (f.env < 0 ? "null" : std::to_string(f.step)) + ", " + quoted("expected") + ": " + quoted(f.expected) + ", " + quoted("found") +
               ": " + quoted(f.found) + "}";
    }
    return out + "]}\n";
}

std::string Report::text() const {
    std::string out = "run " + run + ": " + verdict + (why.empty() ? "" : " (" + why + ")") + "\n";
    const auto line = [&](const char* layer, const std::string& what) { out += "  " + std::string(layer) + what + "\n"; };
    const auto both = [](const Pair& p) { return std::to_string(p.logged) + " logged, " + std::to_string(p.stored) + " there"; };
    const auto tested = [](const Checked& c) { return std::to_string(c.count) + ", " + std::to_string(c.mismatched) + " mismatched"; };
    line("transport  ", std::to_string(transport.count) + " parcels, " + std::to_string(transport.mismatched) + " missing in their sequences" +
                            (not_stored == 0 ? "" : ", " + std::to_string(not_stored) + " received and not stored yet"));
    line("producers  ", std::to_string(producers) + " known, " + std::to_string(open_producers) + " open, " +
                            std::to_string(missing_producers) + " missing");
    line("headers    ", both(headers));
    line("stats      ", both(stats));
    line("points     ", both({points_logged, points_stored}) + ", " + std::to_string(points_declared_lost) + " declared lost, " +
                            std::to_string(checked) + " compared by value");
    line("series     ", tested(series));
    line("tiles      ", tested(tiles));
    line("gaps       ", std::to_string(gap_rows) + " declared");
    if (physical_duplicates != 0) line("duplicates ", std::to_string(physical_duplicates) + " there twice under one key, counted once");
    for (const Finding& f : first)
        line("! ", f.layer + (f.metric.empty() ? "" : " metric " + f.metric) +
                       (f.env < 0 ? "" : " env " + std::to_string(f.env) + " step " + std::to_string(f.step)) + ": expected " + f.expected +
                       ", found " + f.found);
    return out;
}

}  // namespace tally::reconcile
