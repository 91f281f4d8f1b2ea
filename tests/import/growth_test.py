# SPDX-License-Identifier: Apache-2.0
"""Files that grow, tear, change and come again: each row once, whatever is imported in whichever order."""

import json
import os
import signal
import subprocess
import time

from pipeline import TALLYMAN, Pipeline, wait_for


def write(path, text, mode="w"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode, encoding="utf-8", newline="") as f:
        f.write(text)
    return path


class Imports:
    def __init__(self, p):
        self.p = p

    def args(self, run, *more):
        return ["import", "--socket", self.p.socket, "--state", self.p.path("state"), "--json", *(["--run", run] if run else []), *more]

    def __call__(self, run, *more):
        r = self.p.command(*self.args(run, *more))
        return json.loads(r.stdout), r.returncode

    def start(self, run, *more):
        return subprocess.Popen([TALLYMAN, *self.args(run, *more)], stdout=subprocess.PIPE, text=True)


def proven(p, run, points):
    """Landing only: the proof needs no database, so this runs everywhere."""
    last = []

    def there():
        last[:] = [p.reconcile(run, at="received")]
        report, code = last[0]
        return code != 3 and report["points"]["stored"] >= points

    try:
        wait_for("proof", there)
    except AssertionError:
        raise AssertionError(f"{run}: {last}") from None
    report, code = last[0]
    assert code == 0 and report["points"]["stored"] == points, (run, report)


def a_tail_that_is_not_whole(p, imports):
    path = write(p.path("torn/progress.csv"), "step,loss\n1,0.5\n2,0.25\n3,")
    report, code = imports("torn", path)
    assert report["points"] == 2, report
    # "3," has both cells, the second empty: a whole row without a point.
    assert report["files"][0]["rows"] == 3 and code == 0, report
    path = write(p.path("torn/b.csv"), "step,loss,acc\n1,0.5,1\n2,0.2")
    report, code = imports("torn-b", path)
    assert report["points"] == 2 and report["files"][0]["torn_tail_bytes"] == 5 and code == 0, report
    write(path, "5,0\n3,0.125,1\n", "a")
    report, code = imports("torn-b", path)
    assert report["points"] == 4 and report["files"][0]["rows_before"] == 1, report
    proven(p, "torn-b", 6)


def a_file_that_changed_is_refused(p, imports):
    path = write(p.path("changed/progress.csv"), "step,loss\n1,0.5\n2,0.25\n")
    assert imports("changed", path)[0]["points"] == 2
    write(path, "step,loss\n1,0.5\n2,0.75\n3,1\n")
    report, code = imports("changed", path)
    assert code == 1 and report["points"] == 0 and "changed" in report["files"][0]["error"], report
    proven(p, "changed", 2)


def bad_rows_are_counted_and_named(p, imports):
    path = write(p.path("bad/log.jsonl"), '{"step": 1, "a": 1}\nnot json\n{"a": 2}\n{"step": 3, "a": NaN, "' + "n" * 300 + '": 1}\n')
    report, code = imports("bad", path)
    one = report["files"][0]
    assert code == 1 and one["refused_rows"] == 2 and one["first_refused"].startswith("row 2:"), report
    assert report["points"] == 2 and list(one["refused_names"].values()) == [1], report
    proven(p, "bad", 2)


def a_directory_is_runs(p, imports):
    root = p.path("exp")
    write(root + "/a/progress.csv", "step,x\n1,1\n")
    write(root + "/b/c/log.jsonl", '{"step": 1, "x": 1}\n{"step": 2, "x": 2}\n')
    write(root + "/b/params.json", '{"lr": 1}')
    write(root + "/.hidden/progress.csv", "step,x\n1,1\n")
    os.symlink(root, root + "/b/loop")
    report, code = imports(None, root)
    got = {f["run"]: f["points"] for f in report["files"] if f["format"]}
    assert code == 0 and got == {"exp.a": 1, "exp.b.c": 2}, report
    proven(p, "exp.b.c", 2)


def state_of(p, run):
    """{path: (rows, open)} as the importer remembers it."""
    try:
        with open(p.path(f"state/{run}.json"), encoding="utf-8") as f:
            return {s["path"]: (s["rows"], s["open"]) for s in json.load(f)["sources"]}
    except FileNotFoundError:
        return {}


def follow(p, imports):
    root = p.path("live")
    path = write(root + "/log.jsonl", '{"step": 0, "x": 0}\n')
    with imports.start("live", root, "--follow") as importer:
        try:
            wait_for("the first row", lambda: state_of(p, "live").get(path) == (1, False))
            for step in range(1, 40):
                line = json.dumps({"step": step, "x": step})
                write(path, line[:7], "a")
                time.sleep(0.005)
                write(path, line[7:] + "\n", "a")
            later = write(root + "/later/progress.csv", "step,y\n1,1\n")
            wait_for("rows that came later", lambda: state_of(p, "live") == {path: (40, False), later: (1, False)})
            importer.send_signal(signal.SIGTERM)
            report = json.loads(importer.communicate(timeout=60)[0])
        finally:
            importer.kill()
    assert importer.returncode == 0 and report["points"] == 41, report
    assert imports("live", root)[0]["points"] == 0
    proven(p, "live", 41)


def a_killed_import_is_not_repeated_blindly(p, imports):
    path = write(p.path("killed/log.jsonl"), '{"step": 0, "x": 0}\n')
    with imports.start("killed", path, "--follow") as importer:
        try:
            wait_for("imported", lambda: state_of(p, "killed").get(path) == (1, False))
            os.kill(p.agent.pid, signal.SIGSTOP)  # nothing becomes durable now
            write(path, '{"step": 1, "x": 1}\n', "a")
            wait_for("marked", lambda: state_of(p, "killed").get(path) == (2, True))
        finally:
            importer.kill()
            os.kill(p.agent.pid, signal.SIGCONT)
    report, code = imports("killed", path)
    assert code == 1 and report["points"] == 0 and "killed" in report["files"][0]["error"], report
    report, code = imports("killed-again", path)
    assert code == 0 and report["points"] == 2, report
    proven(p, "killed-again", 2)


def without_an_agent(p, imports):
    path = write(p.path("alone/progress.csv"), "step,x\n1,1\n")
    r = p.command("import", path, "--socket", p.path("nobody.sock"), "--state", p.path("state"), "--json")
    report = json.loads(r.stdout)
    assert r.returncode == 1 and any("agent" in e for e in report["errors"]), report


def main():
    with Pipeline(sink="none").start() as p:
        imports = Imports(p)
        a_tail_that_is_not_whole(p, imports)
        a_file_that_changed_is_refused(p, imports)
        bad_rows_are_counted_and_named(p, imports)
        a_directory_is_runs(p, imports)
        follow(p, imports)
        a_killed_import_is_not_repeated_blindly(p, imports)
        without_an_agent(p, imports)


main()
