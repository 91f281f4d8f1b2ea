// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "tools/commands/commands.hpp"
#include "tools/reconcile/landing_proof.hpp"
#include "tools/reconcile/store_proof.hpp"
#include "tools/store_client.hpp"

namespace tally::tools {

namespace {

constexpr std::int64_t store_patience_ns = 5'000'000'000;  // a few batches

struct Args {
    StoreWhere where;
    std::string text;
    std::string format = "PrettyCompact";
    std::string run_id;
    std::string metric;
    std::string steps;
    std::string at = "store";
    std::string landing;
    std::int64_t env = -1;
    bool all_attempts = false;
    bool json = false;
};

int answer(const Args& a, const std::string& sql, const sink::Params& params) {
    const auto store = open_store(a.where);
    if (!store) {
        std::fprintf(stderr, "tallyman: %s\n", store.error().c_str());
        return 1;
    }
    const sink::Answer rows = store->query(sql, a.format, params);
    if (!rows.ok()) {
        std::fprintf(stderr, "tallyman: %s: %s\n", store->how.c_str(), rows.error.c_str());
        return 1;
    }
    std::fwrite(rows.rows.data(), 1, rows.rows.size(), stdout);
    return 0;
}

int query(const Args& a) {
    sink::Params params{{"run", a.run_id}, {"metric", a.metric}};
    std::string from = "tallyman.points";
    std::string where = "run = {run:String} AND metric = {metric:String}";
    if (a.env >= 0) {
        from = "tallyman.series(run = {run:String}, metric = {metric:String}, env = {env:UInt32})";
        params.push_back({"env", std::to_string(a.env)});
        where = "1";
    }
    if (const auto colon = a.steps.find(':'); colon != std::string::npos) {
        params.push_back({"lo", a.steps.substr(0, colon)});
        params.push_back({"hi", a.steps.substr(colon + 1)});
        where += " AND step >= {lo:Int64} AND step <= {hi:Int64}";
    }
    if (!a.all_attempts)
        where += " AND (producer, attempt) NOT IN (SELECT producer, attempt FROM tallyman.producer_states WHERE run = {run:String} AND "
                 "valid_below != 9223372036854775807)";
    return answer(a, "SELECT env, step, rl_step, time, value, dtype FROM " + from + " WHERE " + where + " ORDER BY env, step", params);
}

int reconcile(const Args& a) {
    reconcile::Report report;
    if (a.at == "received") {
        std::string landing = a.landing;
        if (landing.empty()) {
            const auto where = landing_of(a.where.config);
            if (!where) {
                std::fprintf(stderr, "tallyman reconcile: %s\n", where.error().c_str());
                return 2;
            }
            landing = *where;
        }
        report = reconcile::prove_landing(landing, a.run_id);
    } else {
        const auto store = open_store(a.where);
        if (!store) {
            std::fprintf(stderr, "tallyman reconcile: %s; or prove without a database: --at received --config receiver.toml\n", store.error().c_str());
            return 1;
        }
        // What is durable at the far end may hold more of this run than its store shows: not before that is in can it be exact.
        const auto waiting = wait_for_store(store->backlog, store_patience_ns);
        if (!waiting) {
            std::fprintf(stderr, "tallyman reconcile: %s: %s\n", store->how.c_str(), waiting.error().c_str());
            return 1;
        }
        report = reconcile::prove_store(store->query, a.run_id, *waiting);
    }
    std::fputs((a.json ? report.json() : report.text()).c_str(), stdout);
    return report.exit_code();
}

void where_options(CLI::App* c, const std::shared_ptr<Args>& a) {
    c->add_option("--receiver", a->where.receiver, "address:port of a running receiver");
    c->add_option("--config", a->where.config, "receiver.toml: where the receiver, its read token and its store are");
    c->add_option("--token-file", a->where.token_file, "file with the read token");
}

}  // namespace

void add_store(CLI::App& app, Run& run) {
    auto a = std::make_shared<Args>();
    auto* sql = app.add_subcommand("sql", "asks the store in SQL, also while it is written");
    sql->add_option("sql", a->text, "the statement")->required();
    sql->add_option("--format", a->format, "a ClickHouse output format, such as JSONEachRow or CSVWithNames");
    where_options(sql, a);
    sql->callback([&run, a] { run = [a] { return answer(*a, a->text, {}); }; });

    auto* q = app.add_subcommand("query", "the points of one metric, or of one series");
    q->add_option("run", a->run_id, "run id")->required();
    q->add_option("metric", a->metric, "metric")->required();
    q->add_option("--env", a->env, "one environment (a plain scalar is 0)");
    q->add_option("--steps", a->steps, "A:B, both included");
    q->add_flag("--all-attempts", a->all_attempts, "also what a later attempt has overtaken");
    q->add_option("--format", a->format, "a ClickHouse output format");
    where_options(q, a);
    q->callback([&run, a] { run = [a] { return query(*a); }; });

    auto* runs = app.add_subcommand("runs", "what the store holds");
    runs->add_option("--format", a->format, "a ClickHouse output format");
    runs->add_flag_callback("--json", [a] { a->format = "JSONEachRow"; }, "one JSON object per run");
    where_options(runs, a);
    runs->callback([&run, a] { run = [a] { return answer(*a, "SELECT run, project, name, state, started, ended, last_seen FROM tallyman.runs ORDER BY started", {}); }; });

    auto* r = app.add_subcommand("reconcile", "proves by value that what was logged is what is there");
    r->add_option("run", a->run_id, "run id")->required();
    r->add_flag("--json", a->json, "one JSON object");
    r->add_option("--at", a->at, "store, or received: from the landing, without a database")->check(CLI::IsMember({"store", "received"}));
    r->add_option("--landing", a->landing, "landing directory for --at received (default: of --config)");
    where_options(r, a);
    r->footer("exit status: 0 exact; 3 pending and no mismatch; 4 loss or mismatch");
    r->callback([&run, a] { run = [a] { return reconcile(*a); }; });
}

}  // namespace tally::tools
