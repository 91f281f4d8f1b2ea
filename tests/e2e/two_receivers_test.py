#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same parcels given to two receivers with one store: each point once."""

import os
import re
import subprocess
import urllib.request

from pipeline import TALLYMAN, Pipeline, have_chdb, skip


def main():
    if not have_chdb():
        skip("libchdb not found")
    with Pipeline(name="first") as first:
        # The first receiver stores everything; then the agent's ack files are lost, so that a second one is sent again whatever
        # the spool still keeps.
        first.start()
        done = subprocess.run([TALLYMAN, "load", "--run", "a", "--envs", "1000", "--metrics", "3", "--until", "disk", "--socket", first.socket],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr + first.logs()
        report, code = first.until_settled("a")
        assert code == 0, report
        first.kill("agent")
        first.kill("receiver")
        for slot in ("acks.0", "acks.1"):
            path = os.path.join(first.spool, slot)
            if os.path.exists(path):
                os.unlink(path)
        # A second receiver: its own landing, the same store, the same port and token.
        second = Pipeline(name="second", store=first.store, shared=first.dir)
        with second:
            second.port, second.token = first.port, first.token
            second.write_configs()
            second.start_receiver()
            first.start_agent()
            done = subprocess.run([TALLYMAN, "load", "--run", "b", "--envs", "100", "--metrics", "3", "--until", "store", "--socket", first.socket],
                                  capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr + first.logs()
            for run, points in (("a", 1000 * 3 * 64), ("b", 100 * 3 * 64)):
                report, code = second.until_settled(run)
                assert code == 0 and report["points"]["stored"] == points, report
                assert second.sql(f"SELECT count(), uniqExact(metric, env, step) FROM tallyman.points WHERE run = '{run}'") == [[str(points)] * 2]
            # The test means something only if the second receiver did get parcels of the first run again.
            with urllib.request.urlopen(f"http://127.0.0.1:{second.port}/metrics", timeout=30) as answer:
                got = int(re.search(r"^tallyman_receiver_parcels_total (\d+)", answer.read().decode(), re.M).group(1))
            only_b = int(second.sql("SELECT uniqExact(spool, start, lane, seq) FROM tallyman.parcels WHERE run = 'b'")[0][0])
            both = int(second.sql("SELECT uniqExact(spool, start, lane, seq) FROM tallyman.parcels WHERE run IN ('a', 'b')")[0][0])
            assert got > only_b + (both - only_b) // 2, (got, only_b, both)
            second.kill("receiver")
            first.kill("agent")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
