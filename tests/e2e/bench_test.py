#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every case of `tallyman bench` runs, has the fields that scripts read, and ends exact. No figure is tested."""

import json
import math
import os
import subprocess
import tempfile

from pipeline import TALLYMAN, have_chdb

FIELDS = ("points", "seconds", "points_per_s", "bytes_per_point", "cpu_s", "limit_per_s", "ratio_to_limit")
MORE = {
    "log": ["p50_ns", "p999_ns"], "ring": ["bytes_per_s"], "encode": ["ns_per_point"], "spool": ["records"], "ingest": ["cpu_ns_per_point"],
    "ship": ["cpu_ns_per_point"], "start": ["ready_s", "rss_bytes"], "idle": ["cpu_share", "rss_bytes"], "trials": [],
}
WITH_STORE = {"store": [], "query": ["p99_ms"], "reconcile": ["ns_per_point"]}
NOTHING_MOVED = {"start"}
SEVERAL_LINES = {"log", "encode", "spool", "trials", "query"}


def check_line(case, line, more):
    assert line["case"] == case and line["limit_name"], line
    for field in FIELDS + tuple(more):
        assert isinstance(line[field], (int, float)) and math.isfinite(line[field]) and line[field] >= 0, (case, field, line)
    assert line["points"] > 0 and line["ratio_to_limit"] > 0, line
    if case in NOTHING_MOVED:
        assert "verdict" not in line, line
    else:
        assert line["verdict"] == "exact", line


def check_case(case, more, base):
    done = subprocess.run([TALLYMAN, "bench", case, "--quick", "--json", "--dir", base], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{case}: {done.stdout}{done.stderr}"
    results = json.loads(done.stdout)["results"]
    for line in results:
        check_line(case, line, more)
    summary = results[-1]
    assert summary["summary"] is True and not any("summary" in r for r in results[:-1]), results
    if case in SEVERAL_LINES:
        assert len(summary["shapes"]) == len(results) - 1 > 1, results
        ratios = [r["ratio_to_limit"] for r in summary["shapes"]]
        assert summary["worst_ratio"] in (max(ratios), min(ratios)), summary
    assert os.listdir(base) == [], (case, os.listdir(base))


def main():
    unknown = subprocess.run([TALLYMAN, "bench", "nonsense"], capture_output=True, text=True, timeout=60)
    assert unknown.returncode == 2 and "encode" in unknown.stderr, unknown
    cases = dict(MORE, **(WITH_STORE if have_chdb() else {}))
    with tempfile.TemporaryDirectory(prefix="tally-test-") as base:
        for case, more in cases.items():
            check_case(case, more, base)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
