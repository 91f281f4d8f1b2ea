#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The receiver's page in a real browser: what it shows equals what SQL says, in both themes, by pointer and by keyboard, and it leaks nothing."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request

from pipeline import BUILD, TALLYMAN, Pipeline, have_chdb, skip

ENVS, METRICS, STEPS = 1000, 3, 128
HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "deps", "browser")


def get(p, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{p.port}{path}", timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def check_files(p):
    with open(os.path.join(p.landing, "read.token"), encoding="ascii") as f:
        token = f.read().strip()
    for path, kind in (("/", "text/html"), ("/page/main.js", "text/javascript"), ("/page/style.css", "text/css")):
        status, headers, body = get(p, path)
        assert status == 200 and headers["Content-Type"].startswith(kind), (path, status, headers)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy, policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert token.encode() not in body
    for path in ("/page/../receiver.toml", "/page/", "/page/nothing.js", "//", "/page/main.js%00"):
        assert get(p, path)[0] == 404, path
    return token


def main():
    if not have_chdb():
        skip("page: libchdb not found")
    chromium, node = shutil.which("chromium"), shutil.which("node")
    with Pipeline().start() as p:
        for run in ("seen", "other"):
            done = subprocess.run([TALLYMAN, "load", "--run", run, "--envs", str(ENVS), "--metrics", str(METRICS), "--rl-steps", "2", "--env-steps",
                                   "64", "--until", "store", "--socket", p.socket], capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr + p.logs()
        report, code = p.until_settled("seen")
        assert code == 0 and report["verdict"] == "exact", report
        token = check_files(p)

        if not chromium or not node or not os.path.isdir(os.path.join(MODULES, "node_modules", "puppeteer-core")):
            skip("page in a browser: needs chromium, node and puppeteer-core (tools/setup --browser)")
        shots = os.path.join(BUILD, "page")
        os.makedirs(shots, exist_ok=True)
        facts = {
            "url": f"http://127.0.0.1:{p.port}/", "token": token, "chromium": chromium, "shots": shots, "points": ENVS * METRICS * STEPS, "envs": ENVS,
            "steps": STEPS,
            # The cell of the heat map at environments 5..9 (buckets of 5), step 0.
            "cell": p.sql("SELECT avg(value) FROM tallyman.step_slice(run = 'seen', metric = 'm00', lo = 0, hi = 0) WHERE env BETWEEN 5 AND 9")[0][0],
            "metrics": [r[0] for r in p.sql("SELECT DISTINCT metric FROM tallyman.ledger WHERE run = 'seen' ORDER BY metric")],
        }
        browser = subprocess.run([node, os.path.join(HERE, "browse.mjs")], input=json.dumps(facts), capture_output=True, text=True, timeout=240,
                                 env={**os.environ, "NODE_PATH": os.path.join(MODULES, "node_modules"), "PAGE_MODULES": MODULES})
        assert browser.returncode == 0, browser.stdout + browser.stderr + p.logs()
        print(browser.stdout)
        with open(p.log, encoding="utf-8", errors="replace") as f:
            assert token not in f.read()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
