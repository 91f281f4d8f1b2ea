// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent/base/units.hpp"
#include "tools/commands/commands.hpp"
#include "tools/load/load.hpp"

namespace tally::tools {

namespace {

struct Args {
    load::Options options;
    std::string rate = "max";
    std::string shape = "random";
    std::string dtype = "f32";
    std::string until = "disk";
    bool json = false;
};

int run_load(Args& a) {
    if (a.rate != "max") a.options.points_per_s = std::stod(a.rate);
    a.options.shape = a.shape == "rl" ? load::Shape::rl : load::Shape::random;
    a.options.dtype = a.dtype == "f64" ? Dtype::f64 : Dtype::f32;
    a.options.flush_level = a.until == "none" ? 0 : a.until == "disk" ? 1 : a.until == "receiver" ? 2 : 3;
    if (a.options.env_steps % a.options.frame_steps != 0) {
        std::fprintf(stderr, "tallyman load: --frame-steps must divide --env-steps\n");
        return 2;
    }
    const load::Totals t = load::load(a.options);
    for (const std::string& e : t.errors) std::fprintf(stderr, "tallyman load: %s\n", e.c_str());
    if (a.json) {
        std::printf("%s\n", nlohmann::json{{"run", t.run}, {"points", t.points}, {"dropped", t.dropped}, {"headers", t.headers},
                                           {"seconds", t.seconds}, {"seconds_until", t.seconds_to_level}, {"until", a.until},
                                           {"points_per_s", static_cast<double>(t.points) / std::max(t.seconds, 1e-9)}}
                                .dump()
                                .c_str());
    } else {
        std::printf("run %s: %llu points in %.2f s (%s points/s), %s after %.2f s; the store must show %llu points and %llu episode headers\n",
                    t.run.c_str(), static_cast<unsigned long long>(t.points), t.seconds,
                    format_count(static_cast<double>(t.points) / std::max(t.seconds, 1e-9)).c_str(), a.until.c_str(), t.seconds_to_level,
                    static_cast<unsigned long long>(t.points), static_cast<unsigned long long>(t.headers));
        if (t.dropped > 0) std::printf("%llu points were dropped at full rings and declared as gaps\n", static_cast<unsigned long long>(t.dropped));
    }
    return t.errors.empty() ? 0 : 1;
}

}  // namespace

void add_load(CLI::App& app, Run& run) {
    auto a = std::make_shared<Args>();
    auto* c = app.add_subcommand("load", "a deterministic generator: every point can be recomputed from its coordinates");
    c->add_option("--run", a->options.run, "run id (default: a new one)");
    c->add_option("--socket", a->options.socket, "the agent's socket (default: $TALLYMAN_SOCKET, /run/tallyman/agent.sock)");
    c->add_option("--envs", a->options.envs, "environments")->check(CLI::Range(1U, 1U << 30));
    c->add_option("--metrics", a->options.metrics, "metrics, named m00, m01, ...")->check(CLI::Range(1U, 65535U));
    c->add_option("--rl-steps", a->options.rl_steps, "learner steps");
    c->add_option("--env-steps", a->options.env_steps, "environment steps per learner step")->check(CLI::Range(1U, 1U << 30));
    c->add_option("--producers", a->options.producers, "producers, each with a slice of the environments")->check(CLI::Range(1U, 1024U));
    c->add_option("--frame-steps", a->options.frame_steps, "steps per log call; divides --env-steps")->check(CLI::Range(1U, 4096U));
    c->add_option("--rate", a->rate, "points per second, or max")->check([](const std::string& s) -> std::string {
        char* end = nullptr;
        return s == "max" || (std::strtod(s.c_str(), &end) > 0 && *end == 0) ? "" : "a positive number or max";
    });
    c->add_option("--dtype", a->dtype, "f32 or f64")->check(CLI::IsMember({"f32", "f64"}));
    c->add_option("--seed", a->options.seed, "seed");
    c->add_option("--shape", a->shape, "random (by formula) or rl (a CartPole trace)")->check(CLI::IsMember({"random", "rl"}));
    c->add_option("--until", a->until, "wait until all of it is: none, disk, receiver, store")->check(CLI::IsMember({"none", "disk", "receiver", "store"}));
    c->add_flag("--json", a->json, "one JSON object");
    c->callback([&run, a] { run = [a] { return run_load(*a); }; });
}

}  // namespace tally::tools
