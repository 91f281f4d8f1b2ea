#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`load` ends exact, and points recomputed from the formula equal SQL. (A flipped bit being named: unit_reconcile.)"""

import random
import struct
import subprocess

from pipeline import TALLYMAN, Pipeline, have_chdb, skip

M64 = (1 << 64) - 1


def value(seed, metric, env, step):
    x = seed ^ ((metric + 1) * 0x9E3779B97F4A7C15 & M64) ^ ((env + 1) * 0xC2B2AE3D27D4EB4F & M64) ^ ((step + 1) * 0x165667B19E3779F9 & M64)
    z = (x + 0x9E3779B97F4A7C15) & M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    z ^= z >> 31
    return struct.unpack("<I", struct.pack("<f", (z >> 40) / 2**24))[0]


def main():
    if not have_chdb():
        skip("libchdb not found")
    envs, metrics, steps, seed = 5000, 8, 128, 7
    with Pipeline().start() as p:
        done = subprocess.run([TALLYMAN, "load", "--run", "a", "--envs", str(envs), "--metrics", str(metrics), "--rl-steps", "2", "--env-steps",
                               "64", "--producers", "2", "--seed", str(seed), "--until", "store", "--socket", p.socket],
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr + p.logs()
        report, code = p.until_settled("a")
        assert code == 0 and report["verdict"] == "exact", report
        assert report["points"] == {"logged": envs * metrics * steps, "stored": envs * metrics * steps, "declared_lost": 0}, report
        assert report["headers"]["stored"] == envs // 2 * 2 + envs // 2, report

        rng = random.Random(1)
        for _ in range(5):
            m, e = rng.randrange(metrics), rng.randrange(envs)
            rows = p.sql(f"SELECT step, rl_step, bits FROM tallyman.series(run = 'a', metric = 'm{m:02}', env = {e}) ORDER BY step")
            assert len(rows) == steps, (m, e, len(rows))
            for step, rl_step, bits in rows:
                assert int(bits) == value(seed, m, e, int(step)), (m, e, step)
                assert int(rl_step) == int(step) // 64, (m, e, step)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
