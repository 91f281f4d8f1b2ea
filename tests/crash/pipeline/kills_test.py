#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agent and receiver killed at random while two producers log; trainers killed by signals: nothing lost, nothing doubled.

TALLY_KILLS=100 for the long form. The oracle at the end is by value: `reconcile` exact, and every (metric, env, step) of the formula once.
"""

import os
import random
import signal
import subprocess
import time

from pipeline import TALLYMAN, Pipeline, have_chdb

KILLS = int(os.environ.get("TALLY_KILLS", "20"))
SEED = int(os.environ.get("TALLY_SEED", str(int(time.time()))))


def trainer(p, run, steps, rate, producers):
    return subprocess.Popen([TALLYMAN, "load", "--run", run, "--envs", "512", "--metrics", "4", "--rl-steps", str(steps), "--env-steps", "64",
                             "--producers", str(producers), "--rate", str(rate), "--until", "disk", "--socket", p.socket],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_daemons(p, rng, run):
    steps = 4 + KILLS
    load = trainer(p, run, steps, 512 * 4 * 64 * 2, 2)
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.05, 0.6))
        if rng.random() < 0.5:
            p.kill("agent")
            time.sleep(rng.uniform(0, 0.3))
            p.start_agent()
        else:
            p.kill("receiver")
            time.sleep(rng.uniform(0, 0.3))
            p.start_receiver()
    out, err = load.communicate(timeout=600)
    assert load.returncode == 0, out + err + p.logs()
    return 512 * 4 * 64 * steps


def kill_trainers(p, rng):
    for sig in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        run = "trainer-" + signal.Signals(sig).name.lower()
        load = trainer(p, run, 1000, 3e6, 1)
        time.sleep(rng.uniform(0.5, 1.0))
        load.send_signal(sig)
        load.communicate(timeout=60)
        report, code = p.until_settled(run, at="store" if p.sink == "chdb" else "received")
        assert code == 0, (run, report, p.logs())
        assert report["points"]["stored"] > 0, report


def main():
    print("seed", SEED)
    rng = random.Random(SEED)
    sink = "chdb" if have_chdb() else "none"
    at = "store" if sink == "chdb" else "received"
    with Pipeline(sink=sink).start() as p:
        points = kill_daemons(p, rng, "a")
        report, code = p.until_settled("a", at=at)
        assert code == 0 and report["points"] == {"logged": points, "stored": points, "declared_lost": 0}, (report, p.logs())
        if sink == "chdb":
            assert p.sql("SELECT count(), uniqExact(metric, env, step) FROM tallyman.points WHERE run = 'a'") == [[str(points)] * 2]
        kill_trainers(p, rng)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
