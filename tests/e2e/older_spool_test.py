#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A spool brought back from a copy while its trainer lives: what is still in the ring is read again, what was overwritten there is a
declared gap, and everything else is stored once."""

import os
import shutil
import signal
import subprocess
import sys

from pipeline import BUILD, Pipeline, wait_for

TRAINER = """
import sys, tallyman
with tallyman.init(project="t", run_id="older") as run:
    step = 0
    for line in sys.stdin:
        for _ in range(int(line)):
            run.log({"a": step * 0.5, "b": -step}, step=step)
            step += 1
        run.flush("disk")
        print("durable", flush=True)
"""


def older(between, after, lost):
    with Pipeline(sink="none") as p:
        p.start_agent()
        env = dict(os.environ, PYTHONPATH=os.path.join(BUILD, "python"), TALLYMAN_SOCKET=p.socket)
        trainer = subprocess.Popen([sys.executable, "-c", TRAINER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

        def log(n):
            trainer.stdin.write(f"{n}\n")
            trainer.stdin.flush()
            assert trainer.stdout.readline() == "durable\n"

        log(300)
        p.kill("agent")
        shutil.copytree(p.spool, p.spool + ".copy")
        p.start_agent()
        log(between)
        p.kill("agent", signal.SIGKILL)
        shutil.rmtree(p.spool)
        os.rename(p.spool + ".copy", p.spool)
        p.start_agent()
        p.start_receiver()
        log(after)
        trainer.stdin.close()
        assert trainer.wait(timeout=60) == 0

        def accounted():
            points = p.reconcile("older", at="received")[0]["points"]
            return points["logged"] == 2 * (300 + between + after) and points["stored"] + points["declared_lost"] >= points["logged"]

        wait_for("all is received or declared", accounted)
        report, code = p.until_settled("older", at="received")
        assert report["mismatched"] == 0 and report["physical_duplicates"] == 0, report
        points = report["points"]
        assert points["logged"] == 2 * (300 + between + after), report
        assert points["stored"] + points["declared_lost"] == points["logged"], report
        if not lost:
            assert code == 0 and points["declared_lost"] == 0, report
            return
        assert code == 4 and report["verdict"] == "loss", report
        assert 0 < points["declared_lost"] <= 2 * between, report
        assert points["stored"] >= 2 * (300 + after), report


def main():
    older(between=500, after=700, lost=False)
    older(between=20_000, after=700, lost=True)  # the ring holds about 3,000 calls
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
