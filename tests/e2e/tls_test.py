#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wss: exact under the right authority, nothing readable on the way; a wrong authority, name or date sends nothing and loses nothing."""

import os
import shutil
import socket
import subprocess
import threading

from certificates import Authority
from pipeline import TALLYMAN, Pipeline, free_port, wait_for

POINTS = 500 * 4 * 64


class Tap:
    """Forwards one port to another and keeps every byte that passed."""

    def __init__(self, to):
        self.port, self.to, self.seen = free_port(), to, bytearray()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(a, b), daemon=True).start()

    def _copy(self, a, b):
        try:
            while data := a.recv(65536):
                self.seen += data
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Secure(Pipeline):
    """A pipeline over wss; cert and ca are files that a test may replace."""

    endpoint_host, endpoint_port = "localhost", None

    def write_configs(self):
        self.cert, self.key, self.ca = self.path("server.pem"), self.path("server.key"), self.path("trusted.pem")
        port = self.endpoint_port or self.port
        with open(self.agent_toml, "w", encoding="ascii") as f:
            f.write(f'[agent]\nsocket = "{self.socket}"\n[spool]\ndir = "{self.spool}"\n[uplink]\n'
                    f'endpoint = "wss://{self.endpoint_host}:{port}"\ntoken_file = "{self.token}"\nca_file = "{self.ca}"\n')
        with open(self.receiver_toml, "w", encoding="ascii") as f:
            f.write(f'[receiver]\nlisten = "127.0.0.1:{self.port}"\ntoken_file = "{self.token}"\ncert_file = "{self.cert}"\n'
                    f'key_file = "{self.key}"\n[landing]\ndir = "{self.landing}"\n[sink]\nkind = "{self.sink}"\n')

    def use(self, issued, ca):
        shutil.copy(issued[0], self.cert)
        shutil.copy(issued[1], self.key)
        shutil.copy(ca, self.ca)


def load(p, run, until):
    done = subprocess.run([TALLYMAN, "load", "--run", run, "--envs", "500", "--metrics", "4", "--until", until, "--socket", p.socket],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + p.logs()


def exact(p, run):
    report, code = p.until_settled(run, at="received")
    assert code == 0 and report["verdict"] == "exact" and report["points"]["stored"] == POINTS, report


def refused(p, run, expected):
    """The agent keeps the run's points and says why; the receiver got none of them."""
    load(p, run, "disk")
    wait_for("the reason: " + expected, lambda: expected in p.status()["uplink"]["last_error"])
    wait_for("the spool keeps it", lambda: p.status()["spool"]["lanes"]["bulk"]["parcels"] > 0)
    status = p.status()
    assert status["uplink"]["state"] == "backoff" and status["points"]["dropped"] == 0, status
    _, code = p.reconcile(run, at="received")
    assert code != 0


def main():
    with Secure(sink="none") as p:
        ours, theirs = Authority(p.path("ours")), Authority(p.path("theirs"))
        good = ours.issue("good")

        p.use(good, ours.cert)
        tap = Tap(p.port)
        p.endpoint_port = tap.port
        p.write_configs()
        p.start()
        load(p, "secret-run-name", "receiver")
        exact(p, "secret-run-name")
        with open(p.token, "rb") as f:
            token = f.read().strip()
        assert len(tap.seen) > 10_000
        for secret in (token, b"secret-run-name", b"tallyman.v1", b"/v1/ship"):
            assert secret not in tap.seen, secret
        # Plaintext to the TLS port is not served.
        with socket.create_connection(("127.0.0.1", p.port), timeout=30) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                assert not s.recv(100).startswith(b"HTTP")
            except ConnectionResetError:
                pass
        tap.listener.close()
        p.endpoint_port = None

        trials = [
            ("stranger", theirs.issue("good"), ours.cert, "localhost", "certificate verify failed"),
            ("other-name", ours.issue("other", names="DNS:elsewhere.example"), ours.cert, "localhost", "certificate verify failed"),
            ("name-for-address", ours.issue("named", names="DNS:localhost"), ours.cert, "127.0.0.1", "certificate verify failed"),
            ("expired", ours.issue("expired", start="200101000000Z", end="200201000000Z"), ours.cert, "localhost", "certificate verify failed"),
            ("not-yet", ours.issue("not-yet", start="480101000000Z", end="490101000000Z"), ours.cert, "localhost",
             "certificate verify failed"),
        ]
        for run, issued, ca, host, why in trials:
            p.kill("agent", 15)
            p.kill("receiver", 15)
            p.endpoint_host = host
            p.write_configs()
            p.use(issued, ca)
            p.start()
            refused(p, run, why)

        # By address as by name; what was kept arrives.
        for host in ("127.0.0.1", "localhost"):
            p.kill("agent", 15)
            p.kill("receiver", 15)
            p.endpoint_host = host
            p.write_configs()
            p.use(good, ours.cert)
            p.start()
            load(p, "after-" + host.replace(".", "-"), "receiver")
            exact(p, "after-" + host.replace(".", "-"))
        for run, *_ in trials:
            exact(p, run)
        assert token.decode() not in open(p.log, encoding="utf-8", errors="replace").read()

        # A receiver whose certificate or key cannot be read says which and does not start.
        p.kill("receiver", 15)
        for missing, name in ((p.cert, "cert_file"), (p.key, "key_file")):
            p.use(good, ours.cert)
            os.unlink(missing)
            r = subprocess.run([TALLYMAN, "receiver", "--config", p.receiver_toml], capture_output=True, text=True, timeout=60)
            assert r.returncode == 2 and name in r.stderr, (r.returncode, r.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
