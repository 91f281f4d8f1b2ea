# SPDX-License-Identifier: Apache-2.0
"""A service manager in small, for tests: takes notifications, keeps descriptors, passes them to the next start."""

import os
import socket
import subprocess
import threading


class ServiceManager:
    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.lock = threading.Lock()
        self.messages = []
        self.stored = []  # (name, fd)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.socket, 65536, 16)
            except OSError:
                return
            fields = dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
            with self.lock:
                self.messages.append(fields)
                if "FDSTORE" in fields:
                    self.stored += [(fields["FDNAME"], fd) for fd in fds]
                if "FDSTOREREMOVE" in fields:
                    for name, fd in self.stored:
                        if name == fields["FDNAME"]:
                            os.close(fd)
                    self.stored = [(n, fd) for n, fd in self.stored if n != fields["FDNAME"]]

    def seen(self, key, value=None):
        with self.lock:
            return [m[key] for m in self.messages if key in m and value in (None, m[key])]

    def names(self):
        with self.lock:
            return sorted(n for n, _ in self.stored)

    def start(self, argv, log, passed=(), watchdog_usec=None):
        """Starts a daemon as systemd would: descriptors from 3 on, LISTEN_PID is its own."""
        with self.lock:
            fds = list(passed) + self.stored
            self.messages = []
        env = dict(os.environ, NOTIFY_SOCKET=self.path)
        if watchdog_usec:
            env["WATCHDOG_USEC"] = str(watchdog_usec)
        prefix = ""
        if fds:
            env.update(LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(n for n, _ in fds))
            moves = " ".join(f"{3 + i}<&{100 + i} {100 + i}<&-" for i in range(len(fds)))
            prefix = f"exec {moves}; LISTEN_PID=$$; export LISTEN_PID; "
            for i, (_, fd) in enumerate(fds):
                os.dup2(fd, 100 + i, inheritable=True)
        command = ["bash", "-c", prefix + 'exec "$@"', "start", *argv]
        with open(log, "ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=env, pass_fds=[100 + i for i in range(len(fds))])
        for i in range(len(fds)):
            os.close(100 + i)
        return process
