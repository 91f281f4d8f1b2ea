#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around a trainer: no agent, a full ring, a used-up budget, an agent that dies, fork, threads, SIGKILL."""

import array
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

from dump_agent import BUILD, DumpAgent, skip

try:
    import tallyman
except ImportError as e:
    skip(f"the Python package is not built: {e}")

NOWHERE = "/tmp/tallyman-no-agent.sock"


def steps(records, run=None):
    return [r["step"] for r in records if r["kind"] == 2 and (run is None or r["run"] == run)]


def no_agent_drops_and_counts():
    run = tallyman.init(socket=NOWHERE, on_full="drop")
    for i in range(6000):
        run.log("a", 1.0, step=i)
    p = run.progress()
    assert p["logged"] + p["dropped"] == 6000 and p["dropped"] > 0 and not p["connected"], p
    assert not run.flush("disk", timeout=0.01)


def a_full_ring_waits_once_then_drops_without_waiting():
    run = tallyman.init(socket=NOWHERE, block_timeout=0.3)
    began, slow = time.monotonic(), 0
    for i in range(8000):
        before = time.monotonic()
        run.log("a", 1.0, step=i)
        slow += time.monotonic() - before > 0.1
    assert slow == 1, slow
    assert 0.25 < time.monotonic() - began
    assert run.progress()["dropped"] > 0


def other_threads_run_while_one_waits_for_room_and_finish_waits_for_it():
    run = tallyman.init(socket=NOWHERE, block_timeout=1.0)
    ended = []

    def log():
        i = 0
        while run.progress()["dropped"] == 0:
            run.log("a", 1.0, step=(i := i + 1))
        ended.append(i)

    ticks = 0
    thread = threading.Thread(target=log)
    thread.start()
    while not ended:
        ticks += 1
        time.sleep(0.01)
    thread.join()
    assert ticks >= 10, ticks
    run = tallyman.init(socket=NOWHERE, block_timeout=1.0)

    def fill():
        try:
            for i in range(100_000_000):
                run.log("a", 1.0, step=i)
        except RuntimeError:
            ended.append("refused")

    thread = threading.Thread(target=fill)
    thread.start()
    time.sleep(0.1)
    run._close(0)
    thread.join()
    assert ended[-1] == "refused"


def raise_is_raised():
    run = tallyman.init(socket=NOWHERE, on_full="raise")
    try:
        for i in range(8000):
            run.log("a", 1.0, step=i)
    except tallyman.RingFull:
        return
    raise AssertionError("never full")


def a_budget_is_named():
    agent = DumpAgent(1000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = tallyman.init(socket=agent.socket)
        run.log("a", 1.0, step=1)
    assert any("user_bytes_max" in str(w.message) for w in caught), [str(w.message) for w in caught]
    try:
        tallyman.init(socket=agent.socket, strict=True)
    except tallyman.Error as e:
        assert "user_bytes_max" in str(e)
    else:
        raise AssertionError("strict init did not raise")
    agent.stop()
    agent = DumpAgent(400 * 1024)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = tallyman.init(socket=agent.socket)
        blk = run.block(["x"], envs=1000)
        blk.log({"x": array.array("f", [0] * 1000)}, step=1)
    assert any("user_bytes_max" in str(w.message) for w in caught), [str(w.message) for w in caught]
    agent.stop()


def an_agent_that_comes_back_gets_everything_once():
    agent = DumpAgent()
    run = tallyman.init(socket=agent.socket, run_id="again")
    for i in range(50):
        run.log("a", 1.0, step=i)
    assert run.flush("disk", timeout=5)
    first = agent.kill()
    for i in range(50, 100):
        run.log("a", 1.0, step=i)
    second_agent = DumpAgent(socket=agent.socket)
    assert run.flush("disk", timeout=10), run.progress()
    run.finish()
    second = second_agent.stop()
    assert steps(first) + steps(second) == list(range(100)), (len(steps(first)), len(steps(second)))


def an_agent_that_starts_later_gets_everything():
    run = tallyman.init(socket=NOWHERE + ".late", run_id="late")
    run.log("a", 1.0, step=1)
    agent = DumpAgent(socket=NOWHERE + ".late")
    assert run.flush("disk", timeout=10)
    run.finish()
    assert steps(agent.stop()) == [1]


def forked_children_and_threads_are_producers_of_their_own():
    agent = DumpAgent()
    run = tallyman.init(socket=agent.socket, run_id="family")
    blk = run.block(["x"], envs=2)
    run.log("a", 1.0, step=0)
    children = []
    for child in range(1, 4):
        pid = os.fork()
        if pid == 0:
            run.log("a", 1.0, step=child)
            blk.log({"x": [1, 2]}, step=child)
            os._exit(0 if run.flush("disk", timeout=10) else 1)
        children.append(pid)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    threads = [threading.Thread(target=run.log, args=({"a": 1.0},), kwargs={"step": 10 + i}) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert run.flush("disk", timeout=10)
    run.finish()
    records = agent.stop()
    assert sorted(steps(records)) == [0, 1, 2, 3, 10, 11, 12, 13], steps(records)
    assert len({r["producer"] for r in records if r["kind"] == 2}) == 8
    assert sorted(r["step"] for r in records if r["kind"] == 1) == [1, 2, 3]


TRAINER = """
import sys, tallyman
run = tallyman.init(socket=sys.argv[1], run_id="killed")
blk = run.block(["x"], envs=1000)
row = {"x": __import__("array").array("f", range(1000))}
i = 0
while True:
    run.log("a", float(i), step=i)
    blk.log(row, step=i)
    i += 1
    if i % 100 == 0: print(i, flush=True)
"""


def a_trainer_killed_in_mid_log_leaves_whole_records_without_a_hole():
    for sig in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        agent = DumpAgent()
        trainer = subprocess.Popen([sys.executable, "-c", TRAINER, agent.socket], stdout=subprocess.PIPE)
        collected = []
        reader = threading.Thread(target=lambda: collected.append(agent.process.stdout.read()))
        reader.start()
        logged = 0
        while logged < 500:
            logged = int(trainer.stdout.readline())
        trainer.send_signal(sig)
        rest = trainer.stdout.read().split()
        trainer.wait()
        logged = int(rest[-1]) if rest else logged
        time.sleep(0.3)
        agent.process.stdin.close()
        reader.join()
        agent.process.wait()
        import json
        records = [json.loads(line) for line in collected[0].splitlines()]
        for kind in (1, 2):
            found = [r["step"] for r in records if r["kind"] == kind]
            assert found == list(range(len(found))) and len(found) >= logged, (sig, kind, len(found), logged)


def limits_fail_with_a_sentence_and_kill_nobody():
    code = f"""
import resource, tallyman, warnings
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
warnings.simplefilter("error")
try: tallyman.init(socket={NOWHERE!r})
except RuntimeWarning as e: print(e, flush=True)
import os
os._exit(0)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0 and "ulimit -f" in out.stdout, out
    code = code.replace("RLIMIT_FSIZE, (4096, 4096)", "RLIMIT_MEMLOCK, (0, 0)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0 and not out.stdout, out


# A cgroup of this machine's memory controller with `limit` bytes, or None where none can be made.
def memory_cgroup(limit):
    name = f"tallyman-test-{os.getpid()}"
    for root, file in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        folder = os.path.join(root, name)
        try:
            os.mkdir(folder)
            with open(os.path.join(folder, file), "r+") as f:
                f.write(str(limit))
            return folder
        except OSError:
            if os.path.isdir(folder):
                os.rmdir(folder)
    return None


def a_near_cgroup_limit_is_named_and_kills_nobody():
    folder = memory_cgroup(64 << 20)
    if folder is None:
        print("SKIP: python_faults: no memory cgroup can be made here", flush=True)
        return
    code = f"""
import os, tallyman, warnings
open({folder!r} + "/cgroup.procs", "w").write(str(os.getpid()))
warnings.simplefilter("always")
run = tallyman.init(socket={NOWHERE!r})
run.log("fits", 1.0, step=0)
with warnings.catch_warnings(record=True) as said:
    block = run.block(["a", "b"], envs=4_000_000)    # 4 frames of 32 MB: a ring of 128 MiB
print(*[w.message for w in said])
block.log(bytearray(0), step=1)
run.log("goes on", 2.0, step=1)
print(run.progress()["logged"], flush=True)
os._exit(0)
"""
    try:
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    finally:
        time.sleep(0.1)
        os.rmdir(folder)
    lines = out.stdout.splitlines()
    assert out.returncode == 0, out
    assert "memory limit is near" in lines[0] and os.path.basename(folder) in lines[0], out
    assert lines[1] == "2", out


def what_makes_no_sense_is_refused():
    for bad in (dict(run_id="a b"), dict(run_id="x" * 129), dict(project="a\nb"), dict(mode="offline"), dict(on_full="wait"), dict(resume="x")):
        try:
            tallyman.init(socket=NOWHERE, **bad)
        except ValueError:
            continue
        raise AssertionError(bad)
    os.environ["TALLYMAN_RUN_ID"] = "no spaces"
    try:
        tallyman.init(socket=NOWHERE)
    except ValueError:
        pass
    else:
        raise AssertionError("TALLYMAN_RUN_ID was not checked")
    os.environ["TALLYMAN_RUN_ID"] = "from-env"
    assert tallyman.init(socket=NOWHERE).id == "from-env"
    assert tallyman.init(socket=NOWHERE, run_id="given").id == "given"
    del os.environ["TALLYMAN_RUN_ID"]
    off = tallyman.init(mode="disabled")
    off.log({"a": 1.0}, step=1)
    off.finish()
    run = tallyman.init(socket=NOWHERE)
    for bad in (lambda: run.log("a", "text", step=1), lambda: run.log("a", 1.0, step=1.5), lambda: run.log({1: 1.0}, step=1),
                lambda: run.log("", 1.0, step=1), lambda: run.log("a", 2**70, step=1), lambda: run.log("a", 1.0, step=1, what=2)):
        try:
            bad()
        except (ValueError, TypeError):
            continue
        raise AssertionError("accepted")


CASES = [no_agent_drops_and_counts, a_full_ring_waits_once_then_drops_without_waiting,
         other_threads_run_while_one_waits_for_room_and_finish_waits_for_it, raise_is_raised, a_budget_is_named,
         an_agent_that_comes_back_gets_everything_once, an_agent_that_starts_later_gets_everything,
         forked_children_and_threads_are_producers_of_their_own, a_trainer_killed_in_mid_log_leaves_whole_records_without_a_hole,
         limits_fail_with_a_sentence_and_kill_nobody, a_near_cgroup_limit_is_named_and_kills_nobody, what_makes_no_sense_is_refused]


def main():
    os.environ["TALLYMAN_SILENT"] = ""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    failed = 0
    for case in CASES:
        if len(sys.argv) > 1 and sys.argv[1] not in case.__name__:
            continue
        began = time.monotonic()
        try:
            case()
        except Exception as e:
            failed += 1
            print(f"FAILED {case.__name__}: {type(e).__name__}: {e}", flush=True)
        else:
            print(f"ok {case.__name__} {time.monotonic() - began:.1f} s", flush=True)
    sys.stdout.flush()
    os._exit(1 if failed else 0)  # runs without an agent have nobody to wait for


main()
