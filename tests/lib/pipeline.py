# SPDX-License-Identifier: Apache-2.0
"""Agent and receiver as real processes in a directory of their own, for tests; stops and removes everything at the end."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("TALLY_BUILD", os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build"))
TALLYMAN = os.path.join(BUILD, "tallyman")
PATIENCE_S = 120  # generous: a condition that never comes is the failure, not a slow machine


def skip(reason):
    print("SKIP: " + reason)
    sys.exit(77)


def have_chdb():
    out = subprocess.run([TALLYMAN, "version"], capture_output=True, text=True, check=True).stdout
    return "embedded ClickHouse: not found" not in out


def wait_for(what, condition):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("never came: " + what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Pipeline:
    def __init__(self, sink="chdb", name="a", store=None, shared=None):
        self.dir = shared or tempfile.mkdtemp(prefix="tally-test-")
        self.owns_dir = shared is None
        self.port = free_port()
        self.sink = sink
        self.token = self.path(f"token-{name}")
        with open(os.open(self.token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
            f.write("0123456789abcdef-" + name)
        self.socket = self.path(f"agent-{name}.sock")
        self.agent_toml = self.path(f"agent-{name}.toml")
        self.receiver_toml = self.path(f"receiver-{name}.toml")
        self.spool = self.path(f"spool-{name}")
        self.landing = self.path(f"landing-{name}")
        self.store = store or self.path("store")
        self.log = self.path(f"log-{name}")
        self.agent = self.receiver = None
        self.write_configs()

    def path(self, name):
        return os.path.join(self.dir, name)

    def write_configs(self):
        with open(self.agent_toml, "w", encoding="ascii") as f:
            f.write(f'[agent]\nsocket = "{self.socket}"\n[spool]\ndir = "{self.spool}"\n[uplink]\n'
                    f'endpoint = "ws://127.0.0.1:{self.port}"\ntoken_file = "{self.token}"\n')
        with open(self.receiver_toml, "w", encoding="ascii") as f:
            f.write(f'[receiver]\nlisten = "127.0.0.1:{self.port}"\ntoken_file = "{self.token}"\ninsecure = true\n'
                    f'[landing]\ndir = "{self.landing}"\n[sink]\nkind = "{self.sink}"\ndir = "{self.store}"\n')

    def _start(self, role, config):
        with open(self.log, "ab") as log:
            return subprocess.Popen([TALLYMAN, role, "--config", config], stdout=log, stderr=log)

    def start_receiver(self):
        self.receiver = self._start("receiver", self.receiver_toml)
        wait_for("receiver listens", self._listens)

    def _listens(self):
        if self.receiver.poll() is not None:
            raise AssertionError("receiver ended:\n" + self.logs())
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def start_agent(self):
        self.agent = self._start("agent", self.agent_toml)
        wait_for("agent answers", lambda: self.agent.poll() is not None or self.status() is not None)
        assert self.agent.poll() is None, "agent ended:\n" + self.logs()

    def start(self):
        self.start_receiver()
        self.start_agent()
        return self

    def kill(self, role, sig=signal.SIGKILL):
        process = getattr(self, role)
        process.send_signal(sig)
        code = process.wait(timeout=PATIENCE_S)
        setattr(self, role, None)
        return code

    def command(self, *args):
        return subprocess.run([TALLYMAN, *args], capture_output=True, text=True, timeout=600)

    def status(self):
        r = self.command("status", "--json", "--socket", self.socket)
        return json.loads(r.stdout) if r.returncode == 0 and r.stdout else None

    def reconcile(self, run, at="store"):
        r = self.command("reconcile", run, "--json", "--at", at, "--config", self.receiver_toml)
        try:
            return json.loads(r.stdout), r.returncode
        except ValueError as e:
            raise AssertionError(f"reconcile said {r.stdout!r} {r.stderr!r}\n{self.logs()}") from e

    def until_settled(self, run, at="store"):
        """The verdict once it is not pending any more."""
        last = {}

        def settled():
            last["report"], last["code"] = self.reconcile(run, at)
            return last["code"] != 3

        try:
            wait_for("a verdict", settled)
        except AssertionError:
            raise AssertionError(f"still pending: {last}\n{self.logs()}") from None
        return last["report"], last["code"]

    def until_stored(self, run, points):
        """The verdict once so many points of the run are in the store and nothing of it is on its way."""

        def stored():
            rows = self.sql(f"SELECT count() FROM tallyman.points WHERE run = '{run}'")
            return int(rows[0][0]) >= points and self.reconcile(run)[1] != 3

        wait_for(f"{points} points of {run}", stored)
        return self.reconcile(run)

    def sql(self, text):
        r = self.command("sql", text, "--format", "TabSeparated", "--config", self.receiver_toml)
        assert r.returncode == 0, r.stderr + self.logs()
        return [line.split("\t") for line in r.stdout.splitlines()]

    def logs(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()[-6000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.agent, self.receiver):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if self.owns_dir:
            shutil.rmtree(self.dir, ignore_errors=True)
