// SPDX-License-Identifier: Apache-2.0
#include "transport/receiver/receiver.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include "agent/base/clock.hpp"
#include "agent/base/log.hpp"
#include "agent/parcel/parcel.hpp"
#include "transport/receiver/page/page.hpp"
#include "transport/receiver/tokens.hpp"
#include "transport/wire/server_session.hpp"

namespace tally::receiver {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr auto request_timeout = std::chrono::seconds(10);
constexpr auto farewell = std::chrono::milliseconds(200);
constexpr std::uint32_t header_bytes_max = 8192;
constexpr std::uint64_t body_bytes_max = 1U << 20;
constexpr std::uint64_t session_credit_bytes = 32ULL << 20;
constexpr std::uint32_t ping_ms = 15'000;
constexpr std::int64_t write_timeout_ns = 30'000'000'000;

class Shared;

// What the owner sees of a session, whatever its stream.
class SessionLink {
public:
    virtual ~SessionLink() = default;
    virtual void deliver(const Answer& answer) = 0;
    virtual void tick(std::int64_t now) = 0;
    virtual void resume() = 0;  // the arrivals queue has room again
    virtual void end(wire::Reason reason, const char* why) = 0;
    virtual const Uuid& spool() const = 0;
};

// State that all connections of one receiver share. One thread: the io_context's.
class Shared {
public:
    Shared(const Options& options, const Uuid& id, LanderQueues& queues, Hooks hooks)
        : options_(options), id_(id), queues_(queues), hooks_(std::move(hooks)) {}

    std::map<SessionKey, std::weak_ptr<SessionLink>> sessions;
    SessionKey next_session = 1;
    bool draining = false;
    std::string ingest_token;
    std::string read_token;
    std::atomic<std::uint64_t> open_sessions{0}, parcels{0}, bytes{0}, refused_connections{0}, refused_parcels{0};

    const Options& options() const { return options_; }
    const Uuid& id() const { return id_; }
    LanderQueues& queues() { return queues_; }
    const Hooks& hooks() const { return hooks_; }
    bool push(Arrival&& arrival) {
        if (!queues_.arrivals.push(std::move(arrival))) return false;
        if (hooks_.wake_lander) hooks_.wake_lander();
        return true;
    }

private:
    const Options options_;
    const Uuid id_;
    LanderQueues& queues_;
    const Hooks hooks_;
};

// One agent session after the upgrade.
template <class Stream>
class ShipSession final : public SessionLink, public std::enable_shared_from_this<ShipSession<Stream>> {
public:
    ShipSession(Stream&& stream, std::shared_ptr<Shared> shared)
        : ws_(std::move(stream)), shared_(std::move(shared)), key_(shared_->next_session++), session_(monotonic_ns()) {}
    ~ShipSession() override {
        shared_->sessions.erase(key_);
        if (opened_) --shared_->open_sessions;
    }

    template <class Request>
    void start(const Request& request) {
        ws_.set_option(websocket::stream_base::timeout{std::chrono::seconds(10), websocket::stream_base::none(), false});
        ws_.set_option(websocket::stream_base::decorator([](websocket::response_type& response) {
            response.set(http::field::server, "tallyman");
            response.set(http::field::sec_websocket_protocol, "tallyman.v1");
        }));
        ws_.binary(true);
        ws_.auto_fragment(false);
        ws_.write_buffer_bytes(64 * 1024);
        ws_.read_message_max(wire::message_bytes_max);
        ws_.async_accept(request, [self = this->shared_from_this()](error_code ec) {
            if (ec) return;
            self->shared_->sessions[self->key_] = self;
            self->opened_ = true;
            ++self->shared_->open_sessions;
            self->read_next();
        });
    }

    void deliver(const Answer& a) override {
        const std::int64_t now = monotonic_ns();
        switch (a.kind) {
            case Answer::Kind::known: {
                wire::Welcome w;
                w.receiver = shared_->id();
                w.credit_bytes = session_credit_bytes;
                w.ping_ms = ping_ms;
                w.ack_level = static_cast<std::uint8_t>(shared_->options().ack);
                w.known = a.sets;
                if (session_.state() == wire::SessionState::hello) session_.welcome(w, now);
                break;
            }
            case Answer::Kind::received: add_ack(a); break;
            case Answer::Kind::stored: stored_.insert(stored_.end(), a.sets.begin(), a.sets.end()); break;
            case Answer::Kind::refused: refuse(a.id, a.reason, a.why); break;
            case Answer::Kind::nack: session_.nack({a.id, a.reason, a.retry_after_ms, a.why}, now); break;
        }
        held_bytes_ -= std::min(held_bytes_, a.bytes);
        if (a.bytes > 0) session_.grant(session_credit_bytes - std::min(session_credit_bytes, held_bytes_), now);
    }
    // Acknowledgements of one round of answers leave in one message.
    void flush_acks() {
        if (received_.empty() && stored_.empty() && refused_.empty()) return;
        wire::Ack ack;
        for (auto& [lane, set] : received_) ack.lanes.push_back({lane.first, lane.second, std::move(set), {}});
        for (auto& sets : stored_) ack.lanes.push_back(std::move(sets));
        ack.refused = std::move(refused_);
        received_.clear();
        stored_.clear();
        refused_.clear();
        session_.ack(ack, monotonic_ns());
    }
    void flush() {
        flush_acks();
        for (wire::Output& out : session_.take_output()) queue_.push_back(std::move(out));
        if (!writing_ && !queue_.empty()) write_next();
        if (session_.state() == wire::SessionState::closed && queue_.empty()) drop();
    }
    void tick(std::int64_t now) override {
        session_.on_tick(now);
        if (writing_ && now - write_began_ns_ > write_timeout_ns) return drop();
        flush();
    }
    void resume() override {
        flush();
        if (!held_arrival_) return;
        if (!shared_->push(std::move(*held_arrival_))) return;
        held_arrival_.reset();
        take_events();
        if (!held_arrival_) read_next();
    }
    void end(wire::Reason reason, const char* why) override {
        session_.close(reason, 1000, why);
        flush();
    }
    const Uuid& spool() const override { return session_.hello().spool; }

private:
    void read_next() {
        if (reading_ || dropped_) return;
        reading_ = true;
        ws_.async_read(buffer_, [self = this->shared_from_this()](error_code ec, std::size_t) {
            self->reading_ = false;
            if (ec) return self->drop();
            self->heard();
        });
    }

    void heard() {
        const auto data = buffer_.data();
        session_.on_message({static_cast<const std::uint8_t*>(data.data()), data.size()}, monotonic_ns());
        for (wire::ServerEvent& event : session_.take_events()) events_.push_back(std::move(event));
        take_events();
        if (session_.state() == wire::SessionState::closed) ++shared_->refused_connections;
        flush();
        if (!held_arrival_ && session_.state() != wire::SessionState::closed) read_next();
    }

    // Events point into buffer_, so it is consumed only when all were handed on.
    void take_events() {
        while (!events_.empty() && !held_arrival_) {
            std::visit([this](auto& e) { on_event(e); }, events_.front());
            events_.pop_front();
        }
        if (events_.empty() && !held_arrival_) buffer_.consume(buffer_.size());
    }

    void on_event(const wire::Greeted& e) {
        if (shared_->draining) return session_.close(wire::Reason::draining, 5000, "the receiver is stopping");
        Arrival a;
        a.kind = Arrival::Kind::hello;
        a.session = key_;
        a.spool = e.hello.spool;
        for (const wire::LaneRange& l : e.hello.lanes) a.lanes.push_back({l.start, l.lane});
        hand_on(std::move(a));
    }

    void on_event(const wire::Arrived& e) {
        const auto peeked = parcel::peek(e.bytes);
        if (!peeked) {
            const auto reason = peeked.error().code == Code::unsupported ? wire::Reason::unsupported
                                : peeked.error().code == Code::too_big   ? wire::Reason::too_big
                                                                         : wire::Reason::corrupt;
            return refuse(e.id, reason, peeked.error().text());
        }
        if (peeked->identity.id != e.id || peeked->identity.spool != session_.hello().spool)
            return refuse(e.id, wire::Reason::unacceptable, "identity of the message and of the parcel differ");
        Arrival a;
        a.session = key_;
        a.spool = session_.hello().spool;
        a.id = e.id;
        a.xxh3 = peeked->header.xxh3;
        a.payload = std::make_shared<const Bytes>(e.bytes.begin(), e.bytes.end());
        held_bytes_ += a.payload->size();
        ++shared_->parcels;
        shared_->bytes += a.payload->size();
        hand_on(std::move(a));
    }

    void on_event(const wire::FlushAsked&) {
        if (shared_->hooks().flush_asked) shared_->hooks().flush_asked();
    }

    // A full queue stops the reading of this session; the sender feels it through TCP and credit.
    void hand_on(Arrival a) {
        if (!shared_->push(std::move(a))) held_arrival_ = std::move(a);
    }

    void refuse(const ParcelId& id, wire::Reason reason, const std::string& why) {
        ++shared_->refused_parcels;
        log_warn("receiver.refused", {{"lane", lane_name(id.lane)}, {"seq", raw(id.seq)}, {"reason", wire::reason_name(reason)}, {"why", why}});
        refused_.push_back({id, 0xFFFF, reason, why});
    }

    void add_ack(const Answer& a) { received_[{a.id.start, a.id.lane}].insert(raw(a.id.seq)); }

    void write_next() {
        writing_ = true;
        write_began_ns_ = monotonic_ns();
        ws_.async_write(asio::buffer(queue_.front().head), [self = this->shared_from_this()](error_code ec, std::size_t) {
            self->writing_ = false;
            if (ec) return self->drop();
            self->queue_.pop_front();
            self->flush();
        });
    }

    void drop() {
        if (dropped_) return;
        dropped_ = true;
        error_code ignored;
        beast::get_lowest_layer(ws_).socket().close(ignored);
    }

    websocket::stream<Stream> ws_;
    std::shared_ptr<Shared> shared_;
    SessionKey key_;
    wire::ServerSession session_;
    beast::flat_buffer buffer_;
    std::deque<wire::ServerEvent> events_;
    std::optional<Arrival> held_arrival_;
    std::map<std::pair<StartId, Lane>, IntervalSet> received_;
    std::vector<wire::LaneSets> stored_;
    std::vector<wire::Refused> refused_;
    std::deque<wire::Output> queue_;
    std::uint64_t held_bytes_ = 0;
    std::int64_t write_began_ns_ = 0;
    bool writing_ = false;
    bool reading_ = false;
    bool opened_ = false;
    bool dropped_ = false;
};

std::string decode_percent(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto hex = [](char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; };
        if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
            out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        } else {
            out += text[i] == '+' ? ' ' : text[i];
        }
    }
    return out;
}

QueryRequest query_of(std::string_view target, std::string body) {
    QueryRequest q;
    q.sql = std::move(body);
    q.format = "TSVWithNames";
    auto at = target.find('?');
    while (at != std::string_view::npos) {
        const auto next = target.find('&', at + 1);
        const std::string_view pair = target.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
        const auto equals = pair.find('=');
        const std::string name(pair.substr(0, equals));
        const std::string value = equals == std::string_view::npos ? "" : decode_percent(pair.substr(equals + 1));
        if (name == "format") q.format = value;
        if (name.starts_with("param_")) q.params.push_back({name.substr(6), value});
        at = next;
    }
    return q;
}

// One HTTP connection: answers requests until it is upgraded or closed.
template <class Stream>
class HttpConnection final : public std::enable_shared_from_this<HttpConnection<Stream>> {
    static constexpr bool tls = !std::is_same_v<Stream, beast::tcp_stream>;

public:
    HttpConnection(Stream&& stream, std::shared_ptr<Shared> shared) : stream_(std::move(stream)), shared_(std::move(shared)) {}

    void start() {
        beast::get_lowest_layer(stream_).expires_after(request_timeout);
        if constexpr (tls) {
            stream_.async_handshake(asio::ssl::stream_base::server, [self = this->shared_from_this()](error_code ec) {
                if (!ec) self->read_next();
            });
        } else {
            read_next();
        }
    }

private:
    void read_next() {
        parser_.emplace();
        parser_->header_limit(header_bytes_max);
        parser_->body_limit(body_bytes_max);
        beast::get_lowest_layer(stream_).expires_after(request_timeout);
        http::async_read(stream_, buffer_, *parser_, [self = this->shared_from_this()](error_code ec, std::size_t) {
            if (ec == http::error::header_limit || ec == http::error::body_limit)
                return self->answer(http::status::payload_too_large, "too big\n", true);
            if (ec) {
                if (ec != http::error::end_of_stream && ec != asio::error::eof) ++self->shared_->refused_connections;
                return;
            }
            self->route();
        });
    }

    void route() {
        const auto& request = parser_->get();
        const std::string_view target(request.target().data(), request.target().size());
        const std::string_view path = target.substr(0, target.find('?'));
        if (path == "/v1/ship") return ship();
        if (path == "/healthz" && request.method() == http::verb::get)
            return shared_->draining ? answer(http::status::service_unavailable, "draining\n") : answer(http::status::ok, "ok\n");
        if (path == "/metrics" && request.method() == http::verb::get) return answer(http::status::ok, metrics());
        if (path == "/query" && request.method() == http::verb::post) return query(target);
        for (const PageFile& file : page_files())
            if (path == file.path && request.method() == http::verb::get) return page(file);
        answer(http::status::not_found, "not found; this is a tallyman receiver: / /v1/ship /query /healthz /metrics\n");
    }

    bool authorized(const std::string& token) const {
        const auto value = parser_->get()[http::field::authorization];
        return bearer_matches({value.data(), value.size()}, token);
    }

    void ship() {
        const auto& request = parser_->get();
        if (!authorized(shared_->ingest_token)) return unauthorized("ingest");
        const auto protocol = request[http::field::sec_websocket_protocol];
        if (!websocket::is_upgrade(request) || std::string_view(protocol.data(), protocol.size()) != "tallyman.v1")
            return refused(http::status::upgrade_required, "WebSocket upgrade with subprotocol tallyman.v1 is needed\n");
        if (shared_->draining) return refused(http::status::service_unavailable, "draining\n");
        if (shared_->sessions.size() >= shared_->options().max_sessions)
            return refused(http::status::too_many_requests, "too many sessions\n");
        beast::get_lowest_layer(stream_).expires_never();
        std::make_shared<ShipSession<Stream>>(std::move(stream_), shared_)->start(request);
    }

    void query(std::string_view target) {
        if (!authorized(shared_->read_token)) return unauthorized("read");
        if (!shared_->hooks().query) return answer(http::status::not_found, "this receiver has no store ([sink] kind = \"none\")\n");
        beast::get_lowest_layer(stream_).expires_never();
        auto self = this->shared_from_this();
        shared_->hooks().query(query_of(target, std::move(parser_->get().body())),
                               [self](Result<std::string> result, std::string error_text) {
                                   asio::post(self->stream_.get_executor(), [self, result = std::move(result), error_text] {
                                       if (result) return self->answer(http::status::ok, *result);
                                       self->answer(http::status::bad_request, error_text.empty() ? result.error().text() + "\n" : error_text + "\n");
                                   });
                               });
    }

    void page(const PageFile& file) {
        prepare(http::status::ok, std::string(file.bytes), false);
        response_.set(http::field::content_type, beast::string_view(file.type.data(), file.type.size()));
        response_.set("Content-Security-Policy", beast::string_view(page_policy.data(), page_policy.size()));
        response_.set("X-Content-Type-Options", "nosniff");
        response_.set("Referrer-Policy", "no-referrer");
        response_.set(http::field::cache_control, "no-cache");
        send();
    }

    void unauthorized(const char* which) {
        ++shared_->refused_connections;
        log_warn("receiver.unauthorized", {{"needs", which}});
        answer(http::status::unauthorized, std::string("a valid ") + which + " token is needed\n", true);
    }
    void refused(http::status status, const char* why) {
        ++shared_->refused_connections;
        answer(status, why, true);
    }

    std::string metrics() const {
        std::string out;
        const auto line = [&out](const char* name, const char* type, std::uint64_t value) {
            out += std::string("# TYPE ") + name + " " + type + "\n" + name + " " + std::to_string(value) + "\n";
        };
        line("tallyman_receiver_sessions", "gauge", shared_->open_sessions);
        line("tallyman_receiver_parcels_total", "counter", shared_->parcels);
        line("tallyman_receiver_bytes_total", "counter", shared_->bytes);
        line("tallyman_receiver_refused_connections_total", "counter", shared_->refused_connections);
        line("tallyman_receiver_refused_parcels_total", "counter", shared_->refused_parcels);
        if (shared_->hooks().metrics) out += shared_->hooks().metrics();
        return out;
    }

    void answer(http::status status, std::string body, bool close = false) {
        prepare(status, std::move(body), close);
        send();
    }

    void prepare(http::status status, std::string body, bool close) {
        response_ = {};
        response_.result(status);
        response_.version(11);
        response_.set(http::field::server, "tallyman");
        response_.set(http::field::content_type, "text/plain; charset=utf-8");
        if (status == http::status::unauthorized) response_.set(http::field::www_authenticate, "Bearer");
        if (status == http::status::too_many_requests || status == http::status::service_unavailable)
            response_.set(http::field::retry_after, "5");
        response_.keep_alive(!close && parser_->get().keep_alive());
        response_.body() = std::move(body);
        response_.prepare_payload();
    }

    void send() {
        beast::get_lowest_layer(stream_).expires_after(request_timeout);
        http::async_write(stream_, response_, [self = this->shared_from_this()](error_code ec, std::size_t) {
            if (!ec && self->response_.keep_alive()) self->read_next();
        });
    }

    Stream stream_;
    std::shared_ptr<Shared> shared_;
    beast::flat_buffer buffer_;
    std::optional<http::request_parser<http::string_body>> parser_;
    http::response<http::string_body> response_;
};

struct Listen {
    std::string host;
    std::string port;
};
Result<Listen> parse_listen(const std::string& text) {
    const auto colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0) return fail(Code::invalid, "[receiver] listen: must be address:port");
    Listen out{text.substr(0, colon), text.substr(colon + 1)};
    if (out.host.front() == '[' && out.host.back() == ']') out.host = out.host.substr(1, out.host.size() - 2);
    return out;
}

class ReceiverImpl final : public Receiver {
public:
    ReceiverImpl(const Options& options, const Uuid& id, LanderQueues& queues, Hooks hooks)
        : shared_(std::make_shared<Shared>(options, id, queues, std::move(hooks))), queues_(queues), acceptor_(io_), timer_(io_) {}

    Status prepare(const std::string& landing_dir) {
        landing_dir_ = landing_dir;
        auto secrets = load_secrets(shared_->options());
        if (!secrets) return std::unexpected(secrets.error());
        take(std::move(*secrets));
        return listen();
    }

    Status reload(const Options& options) override {
        auto secrets = load_secrets(options);
        if (!secrets) return std::unexpected(secrets.error());
        asio::post(io_, [this, fresh = std::make_shared<Secrets>(std::move(*secrets))] {
            const bool new_token = fresh->ingest_token != shared_->ingest_token;
            take(std::move(*fresh));
            if (new_token) for_each([](SessionLink& s) { s.end(wire::Reason::draining, "the token changed; log in again"); });
            log_info("receiver.secrets", {{"sessions_sent_away", new_token}});
        });
        return {};
    }

    void run() override {
        accept_next();
        arm_timer();
        io_.run();
    }
    void stop() override {
        asio::post(io_, [this] {
            shared_->draining = true;
            error_code ignored;
            acceptor_.close(ignored);
            for_each([](SessionLink& s) { s.end(wire::Reason::draining, "the receiver is stopping"); });
            // The farewells need a moment to leave; who does not read them is not waited for.
            timer_.expires_after(farewell);
            timer_.async_wait([this](error_code) { io_.stop(); });
        });
    }
    void wake() override {
        if (!wake_posted_.exchange(true)) {
            asio::post(io_, [this] {
                wake_posted_.store(false);
                deliver_answers();
            });
        }
    }
    std::uint16_t port() const override { return port_; }
    std::int64_t beat_ns() const override { return beat_ns_.load(std::memory_order_relaxed); }
    ReceiverStats stats() const override {
        return {shared_->open_sessions, shared_->parcels, shared_->bytes, shared_->refused_connections, shared_->refused_parcels};
    }

private:
    struct Secrets {
        std::string ingest_token, read_token;
        std::unique_ptr<asio::ssl::context> tls;
    };

    Result<Secrets> load_secrets(const Options& o) const {
        Secrets s;
        auto token = load_token(o.token_file);
        if (!token) return std::unexpected(token.error());
        s.ingest_token = std::move(*token);
        auto read = o.read_token_file.empty() ? load_or_make_token(landing_dir_ + "/read.token") : load_token(o.read_token_file);
        if (!read) return std::unexpected(read.error());
        s.read_token = std::move(*read);
        TALLY_TRY(load_tls(o, s.tls));
        return s;
    }

    // role: net, or before run()
    void take(Secrets secrets) {
        shared_->ingest_token = std::move(secrets.ingest_token);
        shared_->read_token = std::move(secrets.read_token);
        tls_ = std::move(secrets.tls);  // connections hold what they need of the old one
    }

    static Status load_tls(const Options& o, std::unique_ptr<asio::ssl::context>& tls) {
        if (o.insecure) return {};
        if (o.cert_file.empty() || o.key_file.empty())
            return fail(Code::invalid, "[receiver] cert_file and key_file are needed, or insecure = true on loopback");
        tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
        error_code ec;
        tls->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, ec);
        tls->use_certificate_chain_file(o.cert_file, ec);
        if (ec) return fail(Code::invalid, "[receiver] cert_file cannot be loaded");
        tls->use_private_key_file(o.key_file, asio::ssl::context::pem, ec);
        if (ec) return fail(Code::invalid, "[receiver] key_file cannot be loaded");
        return {};
    }

    Status listen() {
        const Options& o = shared_->options();
        auto where = parse_listen(o.listen);
        if (!where) return std::unexpected(where.error());
        error_code ec;
        tcp::resolver resolver(io_);
        const auto found = resolver.resolve(where->host, where->port, tcp::resolver::passive, ec);
        if (ec || found.empty()) return fail(Code::invalid, "[receiver] listen: cannot be resolved");
        const tcp::endpoint endpoint = *found.begin();
        if (o.insecure && !o.allow_plaintext && !endpoint.address().is_loopback())
            return fail(Code::denied, "[receiver] insecure = true listens on loopback only; else allow_plaintext = true");
        acceptor_.open(endpoint.protocol(), ec);
        if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
        if (!ec) acceptor_.bind(endpoint, ec);
        if (!ec) acceptor_.listen(1024, ec);
        if (ec) return fail_errno("[receiver] listen", ec.value());
        port_ = acceptor_.local_endpoint().port();
        return {};
    }

    void accept_next() {
        acceptor_.async_accept([this](error_code ec, tcp::socket socket) {
            if (ec == asio::error::operation_aborted || !acceptor_.is_open()) return;
            if (ec) {
                // Out of descriptors: wait a little instead of spinning on the same error.
                log_warn("receiver.accept", {{"error", ec.message()}});
                retry_.emplace(io_, std::chrono::milliseconds(100));
                retry_->async_wait([this](error_code) { accept_next(); });
                return;
            }
            error_code ignored;
            socket.set_option(tcp::no_delay(true), ignored);
            const unsigned user_timeout_ms = 60'000;
            ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
            if (tls_) {
                using Stream = beast::ssl_stream<beast::tcp_stream>;
                std::make_shared<HttpConnection<Stream>>(Stream(beast::tcp_stream(std::move(socket)), *tls_), shared_)->start();
            } else {
                std::make_shared<HttpConnection<beast::tcp_stream>>(beast::tcp_stream(std::move(socket)), shared_)->start();
            }
            accept_next();
        });
    }

    void arm_timer() {
        timer_.expires_after(std::chrono::milliseconds(100));
        timer_.async_wait([this](error_code ec) {
            if (ec || shared_->draining) return;
            deliver_answers();
            const std::int64_t now = monotonic_ns();
            beat_ns_.store(now, std::memory_order_relaxed);
            for_each([now](SessionLink& s) { s.tick(now); });
            arm_timer();
        });
    }

    void deliver_answers() {
        bool any = false;
        while (auto answer = queues_.answers.pop()) {
            any = true;
            if (answer->kind == Answer::Kind::stored) {
                for_each([&](SessionLink& s) {
                    if (s.spool() == answer->spool) s.deliver(*answer);
                });
                continue;
            }
            const auto it = shared_->sessions.find(answer->session);
            if (it == shared_->sessions.end()) continue;
            if (auto session = it->second.lock()) session->deliver(*answer);
        }
        if (any) for_each([](SessionLink& s) { s.resume(); });
    }

    template <class F>
    void for_each(F&& f) {
        std::vector<std::shared_ptr<SessionLink>> alive;
        for (const auto& [key, weak] : shared_->sessions)
            if (auto session = weak.lock()) alive.push_back(std::move(session));
        for (const auto& session : alive) f(*session);
    }

    asio::io_context io_{1};
    std::shared_ptr<Shared> shared_;
    LanderQueues& queues_;
    std::unique_ptr<asio::ssl::context> tls_;
    tcp::acceptor acceptor_;
    asio::steady_timer timer_;
    std::optional<asio::steady_timer> retry_;
    std::uint16_t port_ = 0;
    std::string landing_dir_;
    std::atomic<bool> wake_posted_{false};
    std::atomic<std::int64_t> beat_ns_{0};
};

}  // namespace

Result<std::unique_ptr<Receiver>> Receiver::open(const Options& options, const std::string& landing_dir, const Uuid& id,
                                                 LanderQueues& queues, Hooks hooks) {
    auto made = std::make_unique<ReceiverImpl>(options, id, queues, std::move(hooks));
    TALLY_TRY(made->prepare(landing_dir));
    return std::unique_ptr<Receiver>(std::move(made));
}

}  // namespace tally::receiver
