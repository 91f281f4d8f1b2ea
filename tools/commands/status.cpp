// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent/app/agent.hpp"
#include "agent/base/fd.hpp"
#include "agent/base/units.hpp"
#include "spool/scan.hpp"
#include "tools/commands/commands.hpp"

namespace tally::tools {

namespace {

Result<std::string> ask_agent(const std::string& socket) {
    const std::string path = app::control_path(socket);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return fail(Code::too_big, "socket path");
    std::memcpy(address.sun_path, path.c_str(), path.size());
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return fail_errno("connect");
    std::string out;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(fd.get(), buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<std::size_t>(n));
    return out;
}

int status(const std::string& socket, bool as_json) {
    const auto text = ask_agent(socket);
    if (!text) {
        std::fprintf(stderr, "tallyman status: no agent answers at %s (%s); is `tallyman agent` running? --socket names another\n",
                     socket.c_str(), text.error().text().c_str());
        return 1;
    }
    if (as_json) {
        std::fputs(text->c_str(), stdout);
        return 0;
    }
    const auto j = nlohmann::json::parse(*text, nullptr, false);
    if (j.is_discarded()) return 1;
    const auto count = [&](const char* key) { return format_count(j["points"][key].get<double>()); };
    std::printf("points    logged %s  durable %s  received %s  stored %s  dropped %s\n", count("logged").c_str(), count("durable").c_str(),
                count("received").c_str(), count("stored").c_str(), count("dropped").c_str());
    std::printf("producers %zu attached\n", j["producers"].size());
    std::printf("spool     %s of %s, engine %s, parked %llu\n", format_bytes(j["spool"]["bytes"].get<std::uint64_t>()).c_str(),
                format_bytes(j["spool"]["budget_bytes"].get<std::uint64_t>()).c_str(), j["spool"]["engine"].get<std::string>().c_str(),
                static_cast<unsigned long long>(j["spool"]["parked"].get<std::uint64_t>()));
    std::printf("uplink    %s to %s, %d sessions, %.1f Mbit/s, %.2f bytes/point%s%s\n", j["uplink"]["state"].get<std::string>().c_str(),
                j["uplink"]["endpoint"].get<std::string>().c_str(), j["uplink"]["sessions"].get<int>(),
                j["uplink"]["goodput_bps"].get<double>() / 1e6, j["uplink"]["bytes_per_point"].get<double>(),
                j["uplink"]["last_error"].get<std::string>().empty() ? "" : "; last error: ",
                j["uplink"]["last_error"].get<std::string>().c_str());
    return 0;
}

int spool_check(const std::string& dir, bool list) {
    const auto summary = spool::scan(dir, [list](const spool::ScannedRecord& r) {
        if (list)
            std::printf("%016llx %s seq %llu group %llu %u bytes%s%s\n", static_cast<unsigned long long>(r.header.start),
                        lane_name(static_cast<Lane>(r.header.lane)), static_cast<unsigned long long>(r.header.seq),
                        static_cast<unsigned long long>(r.header.group), r.header.payload_bytes, r.committed ? "" : " uncommitted", r.acked ? " acked" : "");
        return true;
    });
    if (!summary) {
        std::fprintf(stderr, "tallyman spool: %s: %s\n", dir.c_str(), summary.error().text().c_str());
        return 2;
    }
    for (const spool::Damage& d : summary->damage)
        std::printf("damage: %s: %s, lane %s, sequences %llu-%llu\n", d.file.c_str(), d.what.c_str(), lane_name(d.lane),
                    static_cast<unsigned long long>(d.seq_first), static_cast<unsigned long long>(d.seq_last));
    std::printf("spool %s: %llu segments, %s, %llu records, %llu uncommitted, %zu damaged ranges\n", summary->spool.text().c_str(),
                static_cast<unsigned long long>(summary->segments), format_bytes(summary->bytes).c_str(),
                static_cast<unsigned long long>(summary->records), static_cast<unsigned long long>(summary->uncommitted), summary->damage.size());
    return summary->damage.empty() ? 0 : 1;
}

}  // namespace

void add_status(CLI::App& app, Run& run) {
    auto socket = std::make_shared<std::string>("/run/tallyman/agent.sock");
    auto json = std::make_shared<bool>(false);
    auto* c = app.add_subcommand("status", "what the agent of this host is doing");
    c->add_option("--socket", *socket, "the agent's socket")->envname("TALLYMAN_SOCKET");
    c->add_flag("--json", *json, "one JSON object");
    c->callback([&run, socket, json] { run = [socket, json] { return status(*socket, *json); }; });

    auto dir = std::make_shared<std::string>();
    auto* s = app.add_subcommand("spool", "looks into a spool or landing, also one in use; changes nothing");
    s->require_subcommand(1);
    auto* ls = s->add_subcommand("ls", "every record");
    ls->add_option("dir", *dir, "directory")->required();
    ls->callback([&run, dir] { run = [dir] { return spool_check(*dir, true); }; });
    auto* check = s->add_subcommand("check", "exit 1 when damage is found");
    check->add_option("dir", *dir, "directory")->required();
    check->callback([&run, dir] { run = [dir] { return spool_check(*dir, false); }; });
}

}  // namespace tally::tools
