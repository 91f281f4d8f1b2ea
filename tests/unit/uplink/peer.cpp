// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/uplink/peer.hpp"

#include <sys/socket.h>

#include <mutex>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

namespace tally::uplink {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using tcp = asio::ip::tcp;
using boost::system::error_code;

class PeerOnSocket final : public Peer {
public:
    explicit PeerOnSocket(tcp::socket socket) : ws_(std::move(socket)) { ws_.read_message_max(wire::message_bytes_max); }

    void decline(const std::string& status, const std::string& headers) override {
        if (!read_request()) return;
        error_code ec;
        asio::write(ws_.next_layer(), asio::buffer("HTTP/1.1 " + status + "\r\n" + headers + "Content-Length: 0\r\n\r\n"), ec);
        ws_.next_layer().shutdown(tcp::socket::shutdown_both, ec);
    }
    void hang_up() override {
        (void)read_request();
        error_code ec;
        ws_.next_layer().close(ec);
    }
    bool accept() override {
        if (!read_request()) return false;
        error_code ec;
        ws_.set_option(websocket::stream_base::decorator(
            [](websocket::response_type& r) { r.set(http::field::sec_websocket_protocol, "tallyman.v1"); }));
        ws_.accept(request_, ec);
        if (ec) return false;
        ws_.binary(true);
        auto first = hear();
        if (!first || !std::holds_alternative<wire::Hello>(*first)) return false;
        hello = std::get<wire::Hello>(*first);
        return true;
    }
    bool welcome(const wire::Welcome& welcome) override {
        if (!accept()) return false;
        say(welcome);
        return true;
    }
    void say(const wire::Message& message) override { say_raw(wire::encode(message)); }
    void say_raw(ByteView bytes) override {
        error_code ec;
        ws_.write(asio::buffer(bytes.data(), bytes.size()), ec);
    }
    std::optional<wire::Message> hear() override {
        buffer_.clear();
        error_code ec;
        ws_.read(buffer_, ec);
        if (ec) return std::nullopt;
        const auto data = buffer_.cdata();
        auto message = wire::decode({static_cast<const std::uint8_t*>(data.data()), data.size()});
        if (!message) return std::nullopt;
        return std::move(*message);
    }
    void cut() override {
        error_code ec;
        ws_.next_layer().set_option(asio::socket_base::linger(true, 0), ec);
        ws_.next_layer().close(ec);
    }

    int descriptor() { return ws_.next_layer().native_handle(); }

private:
    bool read_request() {
        error_code ec;
        http::read(ws_.next_layer(), buffer_, request_, ec);
        authorization = std::string(request_[http::field::authorization]);
        target = std::string(request_.target());
        return !ec;
    }

    websocket::stream<tcp::socket> ws_;
    boost::beast::flat_buffer buffer_;
    http::request<http::string_body> request_;
};

}  // namespace

struct ScriptedServer::Impl {
    asio::io_context io;
    tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
    std::mutex mutex;
    std::vector<std::shared_ptr<PeerOnSocket>> peers;
    std::vector<std::thread> threads;
    std::thread listener;
    std::atomic<bool> stopping{false};
};

ScriptedServer::ScriptedServer(Script script) : impl_(std::make_unique<Impl>()) {
    impl_->listener = std::thread([this, script = std::move(script)] {
        while (!impl_->stopping) {
            error_code ec;
            tcp::socket socket(impl_->io);
            impl_->acceptor.accept(socket, ec);
            if (ec || impl_->stopping) return;
            auto peer = std::make_shared<PeerOnSocket>(std::move(socket));
            const std::lock_guard lock(impl_->mutex);
            impl_->peers.push_back(peer);
            impl_->threads.emplace_back([peer, script, n = accepted_++] { script(*peer, n); });
        }
    });
}

ScriptedServer::~ScriptedServer() { stop(); }

void ScriptedServer::stop() {
    if (impl_->stopping.exchange(true)) return;
    ::shutdown(impl_->acceptor.native_handle(), SHUT_RDWR);  // wakes accept()
    impl_->listener.join();
    for (auto& peer : impl_->peers) ::shutdown(peer->descriptor(), SHUT_RDWR);  // wakes hear(); no effect once closed
    for (std::thread& t : impl_->threads) t.join();
}

std::string ScriptedServer::url() const {
    return "ws://127.0.0.1:" + std::to_string(impl_->acceptor.local_endpoint().port());
}

}  // namespace tally::uplink
