// SPDX-License-Identifier: Apache-2.0
#include "transport/uplink/connection.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <chrono>
#include <deque>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include "agent/base/clock.hpp"

namespace tally::uplink {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr auto connect_timeout = std::chrono::seconds(10);
constexpr std::size_t write_buffer_bytes = 1U << 20;  // the default of 4 KiB halves the speed: clients mask piecewise

void tune(tcp::socket& socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const int lowat = 256 * 1024;
    const unsigned user_timeout_ms = 30'000;
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof lowat);
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
}

template <class Stream>
class ConnectionOn final : public Connection, public std::enable_shared_from_this<ConnectionOn<Stream>> {
    static constexpr bool tls = !std::is_same_v<Stream, beast::tcp_stream>;

public:
    template <class... Args>
    ConnectionOn(asio::io_context& io, const Endpoint& endpoint, std::string token, ConnectionEvents events, Args&&... args)
        : resolver_(io), ws_(io, std::forward<Args>(args)...), endpoint_(endpoint), token_(std::move(token)),
          events_(std::move(events)) {}

    void start() {
        resolver_.async_resolve(endpoint_.host, endpoint_.port,
                                [self = this->shared_from_this()](error_code ec, tcp::resolver::results_type found) {
                                    if (ec) return self->ended("resolve " + self->endpoint_.host, ec);
                                    self->connect(found);
                                });
    }

    void write(wire::Output message) override {
        queue_.push_back(std::move(message));
        if (open_ && queue_.size() == 1) write_next();
    }
    std::size_t queued() const override { return queue_.size(); }
    std::int64_t write_began_ns() const override { return write_began_ns_; }
    void close(const std::string& why) override {
        if (ended_) return;
        ended(why, {});
    }

private:
    void connect(const tcp::resolver::results_type& found) {
        beast::get_lowest_layer(ws_).expires_after(connect_timeout);
        beast::get_lowest_layer(ws_).async_connect(found, [self = this->shared_from_this()](error_code ec, const tcp::endpoint&) {
            if (ec) return self->ended("connect " + self->endpoint_.host + ":" + self->endpoint_.port, ec);
            tune(beast::get_lowest_layer(self->ws_).socket());
            self->secure();
        });
    }

    void secure() {
        if constexpr (tls) {
            beast::get_lowest_layer(ws_).expires_after(connect_timeout);
            // SNI carries names only (RFC 6066 section 3). The macro for this casts in the old style.
            error_code not_an_address;
            asio::ip::make_address(endpoint_.host, not_an_address);
            if (not_an_address)
                SSL_ctrl(ws_.next_layer().native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                         endpoint_.host.data());
            ws_.next_layer().set_verify_callback(asio::ssl::host_name_verification(endpoint_.host));
            ws_.next_layer().async_handshake(asio::ssl::stream_base::client, [self = this->shared_from_this()](error_code ec) {
                if (ec) return self->ended("TLS handshake", ec);
                self->upgrade();
            });
        } else {
            upgrade();
        }
    }

    void upgrade() {
        beast::get_lowest_layer(ws_).expires_never();
        websocket::stream_base::timeout limits{connect_timeout, websocket::stream_base::none(), false};
        ws_.set_option(limits);
        ws_.set_option(websocket::stream_base::decorator([token = token_](websocket::request_type& request) {
            request.set(beast::http::field::authorization, "Bearer " + token);
            request.set(beast::http::field::sec_websocket_protocol, "tallyman.v1");
            request.set(beast::http::field::user_agent, "tallyman");
        }));
        token_.clear();
        ws_.binary(true);
        ws_.auto_fragment(false);
        ws_.write_buffer_bytes(write_buffer_bytes);
        ws_.read_message_max(wire::message_bytes_max);
        ws_.async_handshake(response_, endpoint_.host + ":" + endpoint_.port, "/v1/ship",
                            [self = this->shared_from_this()](error_code ec) {
                                if (ec) return self->ended("upgrade", ec);
                                self->opened();
                            });
    }

    void opened() {
        open_ = true;
        if (events_.on_open) events_.on_open();
        read_next();
        if (!queue_.empty()) write_next();
    }

    void read_next() {
        ws_.async_read(buffer_, [self = this->shared_from_this()](error_code ec, std::size_t) {
            if (ec) return self->ended("read", ec);
            if (self->ended_) return;
            const auto data = self->buffer_.data();
            self->events_.on_message({static_cast<const std::uint8_t*>(data.data()), data.size()});
            self->buffer_.consume(self->buffer_.size());
            if (!self->ended_) self->read_next();
        });
    }

    void write_next() {
        const wire::Output& message = queue_.front();
        write_began_ns_ = monotonic_ns();
        std::array<asio::const_buffer, 2> parts{asio::buffer(message.head), asio::const_buffer{}};
        if (message.payload) parts[1] = asio::buffer(*message.payload);
        ws_.async_write(parts, [self = this->shared_from_this()](error_code ec, std::size_t) {
            self->write_began_ns_ = 0;
            if (ec) return self->ended("write", ec);
            if (self->ended_) return;
            self->queue_.pop_front();
            if (!self->queue_.empty()) {
                self->write_next();
            } else {
                self->events_.on_drained();
            }
        });
    }

    void ended(const std::string& what, error_code ec) {
        if (ended_) return;
        ended_ = true;
        open_ = false;
        error_code ignored;
        resolver_.cancel();
        beast::get_lowest_layer(ws_).socket().close(ignored);
        std::uint32_t retry_after_s = 0;
        unsigned status = 0;
        if (ec == websocket::error::upgrade_declined) {
            status = static_cast<unsigned>(response_.result_int());
            const auto text = response_[beast::http::field::retry_after];
            std::from_chars(text.data(), text.data() + text.size(), retry_after_s);
        }
        const std::string why = status != 0 ? what + ": HTTP " + std::to_string(status) : ec ? what + ": " + ec.message() : what;
        // Posted, so that the owner may drop this connection inside the callback.
        asio::post(ws_.get_executor(), [self = this->shared_from_this(), status, retry_after_s, why] {
            const auto events = std::exchange(self->events_, {});
            if (events.on_closed) events.on_closed(status, retry_after_s, why);
        });
    }

    tcp::resolver resolver_;
    websocket::stream<Stream> ws_;
    Endpoint endpoint_;
    std::string token_;
    ConnectionEvents events_;
    websocket::response_type response_;
    beast::flat_buffer buffer_;
    std::deque<wire::Output> queue_;
    std::int64_t write_began_ns_ = 0;
    bool open_ = false;
    bool ended_ = false;
};

}  // namespace

std::shared_ptr<Connection> Connection::dial(asio::io_context& io, asio::ssl::context* tls, const Endpoint& endpoint,
                                             const std::string& token, ConnectionEvents events) {
    if (tls != nullptr) {
        auto made = std::make_shared<ConnectionOn<beast::ssl_stream<beast::tcp_stream>>>(io, endpoint, token,
                                                                                        std::move(events), *tls);
        made->start();
        return made;
    }
    auto made = std::make_shared<ConnectionOn<beast::tcp_stream>>(io, endpoint, token, std::move(events));
    made->start();
    return made;
}

}  // namespace tally::uplink
