# SPDX-License-Identifier: Apache-2.0
"""Real logs that others produced, imported through agent, receiver and store: every number as independent readers found it."""

import json
import os
import subprocess
import sys

from pipeline import Pipeline, have_chdb, skip

SHARED = os.environ.get("TALLY_SHARED", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared"))
EXPECTED = os.path.join(SHARED, "expected")
NOT_A_LOG = {"016", "023", "039"}  # a configuration, a graph alone, a summary


def files():
    with open(os.path.join(SHARED, "data", "INDEX.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f][1:]
    known = [r for r in rows if os.path.exists(os.path.join(EXPECTED, r[0] + ".json"))]
    return {r[0]: os.path.join(SHARED, "data", r[2]) for r in known}


def import_into(p, run, *paths):
    r = p.command("import", *paths, "--run", run, "--socket", p.socket, "--state", p.path("state"), "--json")
    return json.loads(r.stdout), r.returncode


def csv_of(p, run):
    path = p.path(run + ".csv")
    r = p.command("sql", f"SELECT run, metric, step, value FROM tallyman.points WHERE run = '{run}' FORMAT CSVWithNames", "--config", p.receiver_toml)
    assert r.returncode == 0, r.stderr
    with open(path, "w", encoding="utf-8") as f:
        f.write(r.stdout)
    return path


def compare(p, number, run):
    r = subprocess.run([sys.executable, "compare.py", "--exact", number + ".json", csv_of(p, run)], cwd=EXPECTED, capture_output=True, text=True)
    assert r.returncode == 0, f"{number}: {r.stdout[-3000:]}{r.stderr[-1000:]}"


def words(number, report):
    """What the product says of a file beside its points."""
    with open(os.path.join(EXPECTED, number + ".json"), encoding="utf-8") as f:
        expected = json.load(f)
    assert report["torn_tail_bytes"] == expected["torn_tail_bytes"], number
    assert report["refused_rows"] == 0 and report["refused_names"] == {}, (number, report)
    for name, count in report["skipped_nonnumeric"].items():
        if name.startswith("column_"):
            continue  # no header: names are free
        assert expected["skipped_nonnumeric"].get(name) == count, (number, name, count)


def every_file(p):
    runs = {}
    for number, path in files().items():
        report, code = import_into(p, "f" + number, path)
        one = report["files"][0]
        if number in NOT_A_LOG:
            assert report["points"] == 0 and (one["error"] or one["format"]), (number, report)
            continue
        assert code == 0 and not one["error"], (number, report)
        words(number, one)
        runs[number] = report["points"]
    for number, points in runs.items():
        verdict, code = p.until_stored("f" + number, points)
        assert code == 0 and verdict["points"]["stored"] == points, (number, verdict)
        compare(p, number, "f" + number)
    return runs


def states_of_one_file(p, paths):
    """004 is an earlier state of 005: in either order the run equals 005, and a second import adds nothing."""
    for run, order in (("grown", ("004", "005", "005", "004")), ("shrunk", ("005", "004"))):
        for number in order:
            report, code = import_into(p, run, paths[number])
            assert code == 0, report
        verdict, code = p.until_stored(run, 250)
        assert code == 0 and verdict["points"]["stored"] == 250, verdict
        compare(p, "005", run)


def main():
    if not os.path.exists(os.path.join(EXPECTED, "compare.py")):
        skip("no real logs beside the checkout (TALLY_SHARED)")
    if not have_chdb():
        skip("embedded ClickHouse is not here: imported values cannot be asked for")
    with Pipeline().start() as p:
        runs = every_file(p)
        states_of_one_file(p, files())
        print(f"{len(runs)} files, {sum(runs.values())} points, all equal")


main()
