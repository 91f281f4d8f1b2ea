#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel: what it holds, and that pip puts it into an empty environment where it logs without numpy."""

import base64
import glob
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

from dump_agent import BUILD, DumpAgent, skip

TRAINER = """
import sys, tallyman
assert tallyman.__file__.startswith(sys.prefix), tallyman.__file__
with tallyman.init(run_id="from-the-wheel", socket=sys.argv[1], strict=True) as run:
    blk = run.block(["a", "b"], envs=3)
    run.log({"x": 1.5, "n": 7}, step=4)
    blk.log({"a": [1, 2, 3], "b": memoryview(bytearray(12)).cast("f")}, step=5)
    with blk.frame(step=6) as f:
        f["a"][0] = 2.5
    assert run.flush("disk", timeout=30)
assert "numpy" not in sys.modules
"""


def holds_what_record_says(path):
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        names = z.namelist()
        [record] = [n for n in names if n.endswith(".dist-info/RECORD")]
        rows = [line.rsplit(",", 2) for line in z.read(record).decode().splitlines()]
        assert sorted(r[0] for r in rows) == sorted(names)
        for name, digest, size in rows:
            data = z.read(name)
            want = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert name == record or (digest, int(size)) == (want, len(data)), name
    for part in ("__init__.py", "_run.py", "_tallyman.abi3.so", "_tallyman.pyi", "py.typed"):
        assert "tallyman/" + part in names, part
    return names


def main():
    found = glob.glob(os.path.join(BUILD, "wheel", "tallyman-*.whl"))
    if not found:
        skip("the wheel is not built (python3-dev)")
    [path] = found
    assert "-cp310-abi3-manylinux_2_34_" in path, path
    names = holds_what_record_says(path)
    source = os.path.join("agent", "client", "python", "tallyman")
    for folder, _, files in os.walk(source):
        for f in files:
            if not f.endswith(".pyc"):
                assert os.path.join("tallyman", os.path.relpath(os.path.join(folder, f), source)) in names, f"the wheel lacks {f}"
    with tempfile.TemporaryDirectory(prefix="tallyman-wheel-") as base:
        made = subprocess.run([sys.executable, "-m", "venv", base + "/venv"], capture_output=True, text=True)
        if made.returncode != 0:
            skip("python3-venv is not installed")
        python = base + "/venv/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", path], check=True)
        agent = DumpAgent()
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        subprocess.run([python, "-c", TRAINER, agent.socket], check=True, env=clean, cwd=base)
        records = agent.stop()
    assert {r["run"] for r in records if "run" in r} == {"from-the-wheel"}
    [scalars] = [r for r in records if r["kind"] == 2]
    assert sorted(scalars["values"]) == [["n", "i64", "%016x" % 7], ["x", "f64", "3ff8000000000000"]], scalars
    frames = {r["step"]: dict((n, v) for n, _, v in r["values"]) for r in records if r["kind"] == 1}
    assert frames[5] == {"a": "0000803f0000004000004040", "b": "00" * 12} and frames[6]["a"].startswith("00002040"), frames
    print(f"{os.path.basename(path)}: {len(names)} files, installed, logged")


main()
