// SPDX-License-Identifier: Apache-2.0
#include "tools/store_client.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "agent/base/clock.hpp"
#include "agent/parcel/parcel.hpp"
#include "config/files.hpp"
#include "spool/scan.hpp"
#include "transport/receiver/tokens.hpp"

namespace tally::tools {

namespace {

namespace http = boost::beast::http;
using tcp = boost::asio::ip::tcp;

std::string percent(const std::string& text) {
    static constexpr char digits[] = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.') {
            out += c;
        } else {
            out += '%';
            out += digits[(c >> 4) & 15];
            out += digits[c & 15];
        }
    }
    return out;
}

struct Address {
    std::string host;
    std::string port;
};
Address split(const std::string& text) {
    const auto colon = text.rfind(':');
    if (colon == std::string::npos) return {text, "7411"};
    return {text.substr(0, colon), text.substr(colon + 1)};
}

// One request on a connection of its own. Empty optional: nobody listens there.
std::optional<sink::Answer> request(http::verb verb, const Address& to, const std::string& token, const std::string& target,
                                    const std::string& body) {
    boost::asio::io_context io;
    tcp::resolver resolver(io);
    boost::system::error_code ec;
    const auto found = resolver.resolve(to.host, to.port, ec);
    boost::beast::tcp_stream stream(io);
    if (!ec) stream.connect(found, ec);
    if (ec) return std::nullopt;
    http::request<http::string_body> request{verb, target, 11};
    request.set(http::field::host, to.host);
    request.set(http::field::authorization, "Bearer " + token);
    request.body() = body;
    request.prepare_payload();
    sink::Answer answer;
    http::write(stream, request, ec);
    boost::beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    if (!ec) http::read(stream, buffer, parser, ec);
    if (ec) {
        answer.error = "the receiver broke off: " + ec.message();
        return answer;
    }
    if (parser.get().result() == http::status::ok) {
        answer.rows = std::move(parser.get().body());
    } else {
        answer.error = "HTTP " + std::to_string(parser.get().result_int()) + ": " + parser.get().body();
    }
    return answer;
}

std::optional<sink::Answer> post(const Address& to, const std::string& token, const std::string& target, const std::string& body) {
    return request(http::verb::post, to, token, target, body);
}

std::optional<std::uint64_t> metric(const std::string& text, const std::string& name) {
    const auto at = ("\n" + text).find("\n" + name + " ");
    if (at == std::string::npos) return std::nullopt;
    return std::strtoull(text.c_str() + at + name.size() + 1, nullptr, 10);
}

BacklogFn backlog_over_http(Address to) {
    return [to = std::move(to)]() -> std::expected<Backlog, std::string> {
        const auto answer = request(http::verb::get, to, "", "/metrics", "");
        if (!answer || !answer->ok()) return std::unexpected("its /metrics cannot be read");
        const auto landed = metric(answer->rows, "tallyman_receiver_landed_parcels_total");
        const auto stored = metric(answer->rows, "tallyman_receiver_stored_parcels_total");
        if (!landed || !stored) return std::unexpected("its /metrics does not say what has landed and not been stored; is it an older version?");
        return Backlog{*landed, *stored};
    };
}

// Nobody runs: what lies unacknowledged in the landing waits for the next receiver.
BacklogFn backlog_of_landing(std::string dir, QueryFn query) {
    return [dir = std::move(dir), query = std::move(query)]() -> std::expected<Backlog, std::string> {
        Backlog out;
        std::error_code ignored;
        if (!std::filesystem::is_directory(dir, ignored)) return out;
        std::set<std::string> open;
        const auto scanned = spool::scan(dir, [&open, &out](const spool::ScannedRecord& record) {
            if (!record.committed || record.acked) return true;
            ++out.landed;
            const auto peeked = record.payload ? parcel::peek(*record.payload) : Result<parcel::Peeked>(fail(Code::corrupt, "landing"));
            if (!peeked) return true;
            const parcel::Identity& id = peeked->identity;
            open.insert(id.spool.text() + "\t" + std::to_string(raw(id.id.start)) + "\t" + std::to_string(static_cast<unsigned>(id.id.lane)) + "\t" +
                        std::to_string(raw(id.id.seq)));
            return true;
        });
        if (!scanned) return std::unexpected("the landing " + dir + " cannot be read: " + scanned.error().text());
        if (out.landed == 0) return out;
        // Stored, but the landing was not told before the receiver ended.
        const sink::Answer rows = query("SELECT DISTINCT spool, start, lane, seq FROM tallyman.parcels", "TabSeparated", {});
        if (!rows.ok()) return std::unexpected(rows.error);
        std::istringstream lines(rows.rows);
        for (std::string line; std::getline(lines, line);) out.stored += open.contains(line) ? 1 : 0;
        return out;
    };
}

QueryFn over_http(Address to, std::string token) {
    return [to = std::move(to), token = std::move(token)](const std::string& sql, const std::string& format, const sink::Params& params) {
        std::string target = "/query?format=" + percent(format);
        for (const auto& [name, value] : params) target += "&param_" + percent(name) + "=" + percent(value);
        auto answer = post(to, token, target, sql);
        if (answer) return std::move(*answer);
        sink::Answer gone;
        gone.error = "the receiver at " + to.host + ":" + to.port + " is gone";
        return gone;
    };
}

}  // namespace

std::expected<OpenedStore, std::string> open_store(const StoreWhere& where) {
    config::ReceiverConfig config;
    if (!where.config.empty()) {
        const auto problems = config::load_receiver(where.config, config);
        if (!problems.empty()) return std::unexpected(problems.front().line_text());
    }
    OpenedStore out;
    out.landing_dir = config.landing.dir;
    const std::string address = !where.receiver.empty() ? where.receiver : config.receiver.listen;
    std::string token_file = where.token_file;
    if (token_file.empty()) token_file = config.receiver.read_token_file;
    if (token_file.empty() && !config.landing.dir.empty()) token_file = config.landing.dir + "/read.token";
    if (!token_file.empty()) {
        const auto token = receiver::load_token(token_file);
        if (token) {
            const Address to = split(address);
            if (const auto alive = post(to, *token, "/query?format=TabSeparated", "SELECT 1")) {
                if (!alive->ok()) return std::unexpected("receiver " + address + ": " + alive->error);
                out.query = over_http(to, *token);
                out.backlog = backlog_over_http(to);
                out.how = "receiver " + address;
                return out;
            }
        } else if (config.sink.dir.empty()) {
            return std::unexpected("read token " + token_file + ": " + token.error().text());
        }
    }
    if (config.sink.dir.empty())
        return std::unexpected("no receiver answers at " + address + "; give --config receiver.toml (or --receiver ADDR and --token-file F)");
    auto opened = sink::Connection::open({config.sink.library, config.sink.dir, {{"readonly", "1"}}});
    if (!opened) return std::unexpected("store " + config.sink.dir + ": " + opened.error().text());
    std::shared_ptr<sink::Connection> connection = std::move(*opened);
    out.query = [connection](const std::string& sql, const std::string& format, const sink::Params& params) {
        return connection->query(sql, format, params);
    };
    out.backlog = backlog_of_landing(config.landing.dir, out.query);
    out.how = "store " + config.sink.dir;
    return out;
}

std::expected<std::uint64_t, std::string> wait_for_store(const BacklogFn& backlog, std::int64_t patience_ns) {
    const auto first = backlog();
    if (!first) return std::unexpected(first.error());
    std::uint64_t stored = first->stored;
    const std::int64_t until = monotonic_ns() + patience_ns;
    while (stored < first->landed && monotonic_ns() < until) {
        ::usleep(100'000);
        const auto now = backlog();
        if (!now) return std::unexpected(now.error());
        stored = now->stored;
    }
    return first->landed - std::min(first->landed, stored);
}

}  // namespace tally::tools
