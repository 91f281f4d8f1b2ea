// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent/base/units.hpp"
#include "tools/commands/commands.hpp"
#include "tools/import/import.hpp"

namespace tally::tools {

namespace {

constexpr std::size_t named_max = 6;

std::atomic<bool> stop_import{false};

struct Args {
    import::Options options;
    bool json = false;
};

nlohmann::json json_of(const import::Outcome& o) {
    return {{"path", o.path},
            {"run", o.run},
            {"format", o.format},
            {"step", o.step},
            {"rows", o.rows},
            {"rows_before", o.rows_before},
            {"continues", o.continues},
            {"points", o.points},
            {"nulls", o.nulls},
            {"skipped_nonnumeric", o.skipped_nonnumeric},
            {"refused_rows", o.refused_rows},
            {"first_refused", o.first_refused},
            {"refused_names", o.refused_names},
            {"torn_tail_bytes", o.torn_tail_bytes},
            {"error", o.error}};
}

std::string counted(const std::map<std::string, std::uint64_t>& names) {
    std::string text;
    std::size_t n = 0;
    for (const auto& [name, count] : names) {
        if (n++ == named_max) return text + ", and " + std::to_string(names.size() - named_max) + " more names";
        text += (text.empty() ? "" : ", ") + name + " x" + std::to_string(count);
    }
    return text;
}

void print(const import::Outcome& o) {
    std::printf("%s", o.path.c_str());
    if (!o.format.empty()) {
        std::printf(": %s, %llu points in %llu rows -> run %s (step: %s)", o.format.c_str(), static_cast<unsigned long long>(o.points),
                    static_cast<unsigned long long>(o.rows), o.run.c_str(), o.step.c_str());
    }
    std::printf("\n");
    if (!o.continues.empty()) std::printf("    its first %llu rows are those of %s\n", static_cast<unsigned long long>(o.rows_before), o.continues.c_str());
    else if (o.rows_before > 0) std::printf("    %llu rows had been imported before\n", static_cast<unsigned long long>(o.rows_before));
    if (!o.skipped_nonnumeric.empty()) std::printf("    no numbers: %s\n", counted(o.skipped_nonnumeric).c_str());
    if (!o.refused_names.empty()) std::printf("    refused, cannot be metric names: %s\n", counted(o.refused_names).c_str());
    if (o.refused_rows > 0) std::printf("    refused: %llu rows; %s\n", static_cast<unsigned long long>(o.refused_rows), o.first_refused.c_str());
    if (o.torn_tail_bytes > 0) std::printf("    the last %llu bytes are no whole row\n", static_cast<unsigned long long>(o.torn_tail_bytes));
    if (!o.error.empty()) std::printf("    %s: %s\n", o.format.empty() ? "no metric log" : "stopped", o.error.c_str());
}

void show_progress(const import::Totals& t) {
    std::fprintf(stderr, "\r%s points, %s/s \033[K", format_count(static_cast<double>(t.points())).c_str(),
                 format_count(static_cast<double>(t.points()) / std::max(t.seconds, 1e-9)).c_str());
}

int run_import(Args& a) {
    for (const int s : {SIGINT, SIGTERM}) std::signal(s, [](int) { stop_import = true; });
    const bool terminal = ::isatty(STDERR_FILENO) == 1 && !a.json;
    const auto t = import::run_import(a.options, stop_import, terminal ? show_progress : std::function<void(const import::Totals&)>());
    if (terminal) std::fprintf(stderr, "\r\033[K");
    for (const std::string& e : t.errors) std::fprintf(stderr, "tallyman import: %s\n", e.c_str());
    if (a.json) {
        nlohmann::json files = nlohmann::json::array();
        for (const import::Outcome& o : t.files) files.push_back(json_of(o));
        const nlohmann::json all{{"files", files}, {"points", t.points()}, {"seconds", t.seconds}, {"errors", t.errors}};
        std::printf("%s\n", all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else {
        for (const import::Outcome& o : t.files) print(o);
        std::printf("%llu points in %.2f s%s\n", static_cast<unsigned long long>(t.points()), t.seconds,
                    a.options.dry_run ? " (dry run: nothing was sent)" : ", durable in the agent's spool");
    }
    return t.errors.empty() && !t.refused_any() ? 0 : 1;
}

}  // namespace

void add_import(CLI::App& app, Run& run) {
    auto a = std::make_shared<Args>();
    auto* c = app.add_subcommand("import", "logs of other trackers and trainers into runs, each row once");
    c->add_option("paths", a->options.paths, "files, or directories to search for logs")->required();
    c->add_option("--run", a->options.run, "one run for everything (default: one per file, one per directory)");
    c->add_option("--project", a->options.project, "project of the runs");
    c->add_option("--socket", a->options.socket, "the agent's socket (default: $TALLYMAN_SOCKET, /run/tallyman/agent.sock)");
    c->add_option("--state", a->options.state_dir, "where it is remembered what was imported (default: ~/.local/state/tallyman/import; root: /var/lib/tallyman/import)");
    auto* follow = c->add_flag("--follow", a->options.follow, "go on while files grow and new ones appear, until SIGINT or SIGTERM");
    c->add_option("--idle-exit", a->options.idle_exit_s, "with --follow: end after so many seconds without a new row")->needs(follow)->check(CLI::NonNegativeNumber);
    c->add_flag("--dry-run", a->options.dry_run, "read and count, send nothing");
    c->add_flag("--json", a->json, "one JSON object");
    c->footer("Reads TensorBoard event files, .wandb, CSV (Stable-Baselines3, Spinning Up, Ray, Lightning, Keras, monitors, web exports), JSON lines\n"
              "(Ray result.json, wandb history, detectron2), trainer_state.json. The content decides, not the name of a file.\n\n"
              "Every number is kept exactly, NaN and infinities too; repeated and backward steps are kept. Text, lists, images and histograms are\n"
              "counted and named. A second import of the same file, of a grown one, or of a copy adds only the rows that are new.\n\n"
              "Exit: 0 all imported; 1 something was refused (counted and named).");
    c->callback([&run, a] { run = [a] { return run_import(*a); }; });
}

}  // namespace tally::tools
