#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What has landed and is not in the store keeps reconcile from saying exact, though all that the store knows adds up."""

import re
import subprocess
import urllib.request

from pipeline import TALLYMAN, Pipeline, have_chdb, skip, wait_for

POINTS = 200 * 2 * 64


def load(p, until):
    done = subprocess.run([TALLYMAN, "load", "--run", "a", "--envs", "200", "--metrics", "2", "--until", until, "--socket", p.socket],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + p.logs()


def counts(p):
    with urllib.request.urlopen(f"http://127.0.0.1:{p.port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return [int(re.search(rf"^tallyman_receiver_{what}_parcels_total (\d+)", text, re.M).group(1)) for what in ("landed", "stored")]


def main():
    if not have_chdb():
        skip("libchdb not found")
    with Pipeline() as p:
        p.start()
        load(p, "store")
        report, code = p.until_settled("a")
        assert code == 0 and report["points"]["stored"] == POINTS, report
        wait_for("everything landed is stored", lambda: len(set(counts(p))) == 1)
        p.kill("receiver", 15)
        # The same landing without a sink: another producer of the run is received, closed, and not stored.
        p.sink = "none"
        p.write_configs()
        p.start_receiver()
        load(p, "receiver")
        report, code = p.until_settled("a", "received")
        p.kill("receiver", 15)
        p.sink = "chdb"
        p.write_configs()
        report, code = p.reconcile("a")
        assert code == 3 and report["verdict"] == "pending" and report["not_stored"] > 0, report
        assert report["points"]["stored"] == POINTS and "not in the store yet" in report["why"], report
        # A receiver with a sink finds them.
        p.start_receiver()
        report, code = p.until_stored("a", 2 * POINTS)
        assert code == 0 and report["points"]["stored"] == 2 * POINTS and report["not_stored"] == 0, report
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
