#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Without a database the landing keeps everything and proves it; a receiver that is away for a while costs the trainer nothing."""

import subprocess

from pipeline import TALLYMAN, Pipeline, wait_for


def load(p, run, until, *more):
    return subprocess.run([TALLYMAN, "load", "--run", run, "--envs", "2000", "--metrics", "5", "--until", until, "--socket", p.socket, "--json",
                           *more], capture_output=True, text=True, timeout=300)


def main():
    with Pipeline(sink="none").start() as p:
        done = load(p, "near", "receiver")
        assert done.returncode == 0, done.stderr + p.logs()
        report, code = p.until_settled("near", at="received")
        assert code == 0 and report["points"]["stored"] == 2000 * 5 * 64, report

        p.kill("receiver")
        done = load(p, "away", "disk")
        assert done.returncode == 0, done.stderr + p.logs()
        assert p.status()["points"]["dropped"] == 0
        report, code = p.reconcile("away", at="received")
        assert code == 3, report
        p.start_receiver()
        report, code = p.until_settled("away", at="received")
        assert code == 0 and report["points"]["stored"] == 2000 * 5 * 64, report
        wait_for("the spool is acknowledged", lambda: p.status()["spool"]["lanes"]["bulk"]["parcels"] == 0)
        # SIGTERM ends both cleanly.
        assert p.kill("agent", 15) == 0
        assert p.kill("receiver", 15) == 0
        # A second agent on a spool in use is told so.
        p.start_agent()
        second = subprocess.run([TALLYMAN, "agent", "--config", p.agent_toml], capture_output=True, text=True, timeout=60)
        assert second.returncode == 3, second
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
