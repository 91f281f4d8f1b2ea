# SPDX-License-Identifier: Apache-2.0
"""Starts ring_dump, the agent that only prints records, and collects them."""

import json
import os
import subprocess
import sys
import tempfile

BUILD = os.environ.get("TALLY_BUILD", "build")


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


class DumpAgent:
    def __init__(self, *args, socket=None):
        self.dir = None
        if socket is None:
            self.dir = tempfile.TemporaryDirectory(prefix="ring-dump-")
            socket = os.path.join(self.dir.name, "agent.sock")
        self.socket = socket
        self.process = subprocess.Popen([os.path.join(BUILD, "tests", "ring_dump"), self.socket, *map(str, args)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ready = json.loads(self.process.stdout.readline())
        assert ready.get("ready"), ready

    def stop(self):
        """Everything that came, in order of arrival."""
        out, _ = self.process.communicate(b"")
        return [json.loads(line) for line in out.splitlines()]

    def kill(self):
        self.process.kill()
        out, _ = self.process.communicate()
        return [json.loads(line) for line in out.splitlines() if line.endswith(b"}")]
