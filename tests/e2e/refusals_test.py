#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong token, wrong subprotocol, garbage, oversize, slow peers, bad configuration: refused with a reason, nothing else disturbed."""

import os
import socket
import subprocess
import urllib.error
import urllib.request

from pipeline import TALLYMAN, Pipeline, wait_for


def http(p, path, token=None, data=None):
    request = urllib.request.Request(f"http://127.0.0.1:{p.port}{path}", data=data)
    if token:
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def raw(p, data):
    with socket.create_connection(("127.0.0.1", p.port), timeout=30) as s:
        s.sendall(data)
        try:
            return s.recv(65536)
        except ConnectionResetError:
            return b""


def upgrade(token, protocol="tallyman.v1"):
    return (f"GET /v1/ship HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {protocol}\r\nAuthorization: Bearer {token}\r\n\r\n").encode()


def frame(payload):
    """A masked binary WebSocket frame with a zero mask."""
    n = len(payload)
    head = bytes([0x82, 0x80 | n]) if n < 126 else bytes([0x82, 0xFE]) + n.to_bytes(2, "big")
    return head + b"\0\0\0\0" + payload


def sessions(p):
    return "tallyman_receiver_refused_connections_total" in http(p, "/metrics")[1]


def check_config(p, text, expected):
    path = p.path("bad.toml")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    r = subprocess.run([TALLYMAN, "agent", "--config", path], capture_output=True, text=True, timeout=30)
    assert r.returncode == 2 and expected in r.stderr, (r.returncode, r.stderr)


def main():
    with Pipeline(sink="none").start() as p:
        with open(p.token, encoding="ascii") as f:
            token = f.read()
        with open(os.path.join(p.landing, "read.token"), encoding="ascii") as f:
            read_token = f.read().strip()
        assert http(p, "/healthz") == (200, "ok\n")
        assert sessions(p)
        assert http(p, "/nothing")[0] == 404
        assert http(p, "/query", None, b"SELECT 1")[0] == 401
        assert http(p, "/query", token, b"SELECT 1")[0] == 401, "the ingest token must not read"
        assert http(p, "/query", read_token, b"SELECT 1")[0] == 404, "no store here"
        assert b"401" in raw(p, upgrade("wrong-token")).split(b"\r\n")[0]
        assert b"401" in raw(p, upgrade(token + "x")).split(b"\r\n")[0]
        assert b"401" in raw(p, upgrade(read_token)).split(b"\r\n")[0], "the read token must not ship"
        assert b"426" in raw(p, upgrade(token, "other.v9")).split(b"\r\n")[0]
        raw(p, os.urandom(4096))
        raw(p, b"GET / HTTP/1.1\r\nX: " + b"a" * 100000)
        # A session that breaks the protocol gets GOAWAY (kind 10) and ends.
        for hello in (os.urandom(64), b"\x01\0\0\0\xff\xff\xff\x7f", b"\x03\0\0\0\0\0\0\0", b""):
            with socket.create_connection(("127.0.0.1", p.port), timeout=30) as s:
                s.sendall(upgrade(token))
                assert b"101" in s.recv(4096).split(b"\r\n")[0]
                s.sendall(frame(hello))
                answer = s.recv(4096)
                assert answer[:1] == b"\x82" and b"\x0a" in answer[2:6], answer
        # A slow peer holds a connection, not the receiver.
        slow = socket.create_connection(("127.0.0.1", p.port))
        slow.sendall(b"GET /healthz HT")

        done = subprocess.run([TALLYMAN, "load", "--run", "a", "--envs", "100", "--metrics", "2", "--until", "receiver", "--socket", p.socket],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr + p.logs()
        report, code = p.until_settled("a", at="received")
        assert code == 0 and report["points"]["stored"] == 100 * 2 * 64, report
        slow.close()

        # An agent with a wrong token says so and keeps its data.
        p.kill("agent")
        with open(p.token, "w", encoding="ascii") as f:
            f.write("another-token-altogether")
        p.start_agent()
        wait_for("state denied", lambda: p.status()["uplink"]["state"] == "denied")

        check_config(p, '[agent]\nsokcet = "/x"\n', "bad.toml:2: agent.sokcet: unknown key; did you mean socket?")
        check_config(p, '[spool]\ndir = "/x"\nbudget = "5 megs"\n[uplink]\ntoken_file = "t"\n', "bad.toml:3: spool.budget: \"5 megs\" is no size")
        check_config(p, '[spool]\ndir = "/x"\n', "uplink.token_file: is missing")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
