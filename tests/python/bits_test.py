#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From Python into ring records, bit by bit: scalars, blocks of every dtype, conversions, row lists, steps, episodes."""

import struct

from dump_agent import DumpAgent, skip

try:
    import numpy as np
except ImportError:
    skip("numpy is not installed for this Python; the bit tests need it")
try:
    import tallyman
except ImportError as e:
    skip(f"the Python package is not built: {e}")

NAN_PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF4DEADBEEF0001))[0]
F64 = [0x7FF4DEADBEEF0001, 0xFFF8000000000000, 0x8000000000000000, 1, 0x800FFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FEFFFFFFFFFFFFF]
F32 = [0x7F800001, 0xFFC12345, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0x3FC00000]
F16 = [0x7C01, 0xFE00, 0x8000, 1, 0x03FF, 0x7BFF, 0x3C00]


def scalars(records, step):
    return {(n, d): int(b, 16) for r in records if r["kind"] == 2 and r["step"] == step for n, d, b in r["values"]}


def frames(records, step):
    return [r for r in records if r["kind"] == 1 and r["step"] == step]


def column(record, name, occurrence=0):
    return bytes.fromhex([v for n, _, v in record["values"] if n == name][occurrence])


def log_scalars(run):
    run.log({f"f{i}": struct.unpack("<d", struct.pack("<Q", b))[0] for i, b in enumerate(F64)}, step=1)
    run.log({"max": 2**63 - 1, "min": -2**63, "odd": 2**53 + 1, "u": 2**64 - 1, "yes": True, "no": False}, step=2)
    run.log({"f32": np.array([F32[0]], np.uint32).view(np.float32)[0], "f16": np.array([F16[0]], np.uint16).view(np.float16)[0],
             "i8": np.int8(-1), "u16": np.uint16(65535), "npbool": np.bool_(True), "f64": np.float64(NAN_PAYLOAD)}, step=3)
    run.log("single", 1.5, step=-4, rl_step=9, time=123456789)


def check_scalars(records):
    one = scalars(records, 1)
    assert [one[f"f{i}", "f64"] for i in range(len(F64))] == F64, one
    mask = 2**64 - 1
    assert scalars(records, 2) == {("max", "i64"): 2**63 - 1, ("min", "i64"): 2**63, ("odd", "i64"): 2**53 + 1, ("u", "u64"): mask,
                                   ("yes", "bool"): 1, ("no", "bool"): 0}
    assert scalars(records, 3) == {("f32", "f32"): F32[0], ("f16", "f16"): F16[0], ("i8", "i8"): 0xFF, ("u16", "u16"): 65535,
                                   ("npbool", "bool"): 1, ("f64", "f64"): F64[0]}
    single = next(r for r in records if r["kind"] == 2 and r["step"] == -4)
    assert (single["rl_step"], single["time"]) == (9, 123456789)


def raw(dtype, seed, shape):
    """Random bits of a numpy dtype: NaN payloads and subnormals come by themselves."""
    rng = np.random.default_rng(seed)
    width = np.dtype(dtype).itemsize
    return rng.integers(0, 256, (*shape[:-1], shape[-1] * width), np.uint8).view(dtype)


DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


def log_blocks(run):
    sent = {}
    for k, (name, dtype) in enumerate(DTYPES.items()):
        blk = run.block(["a/" + name, "b/" + name], envs=7, env0=100, dtype=name)
        sent[name] = raw(dtype, k, (2, 7))
        blk.log(sent[name], step=10)
        blk.log({"b/" + name: sent[name][1], "a/" + name: sent[name][0]}, step=11)
        blk.log(np.asfortranarray(sent[name]), step=12)
        blk.log(sent[name][:, ::-1], step=13)
    return sent


def check_blocks(records, sent):
    for name, values in sent.items():
        for step, expected in [(10, values), (11, values), (12, values), (13, values[:, ::-1])]:
            found = [r for r in frames(records, step) if r["values"][0][0] == "a/" + name]
            assert len(found) == 1 and found[0]["env_first"] == 100, (name, step, found)
            assert column(found[0], "a/" + name) == expected[0].tobytes(), (name, step)
            assert column(found[0], "b/" + name) == expected[1].tobytes(), (name, step)


def log_conversions(run):
    mixed = run.block(["f", "h", "b", "n", "i", "g"], envs=4,
                      dtype={"f": "f32", "h": "f16", "b": "bf16", "n": "bool", "i": "i32", "g": "f64"})
    f64 = np.array([1.5, -0.0, np.inf, 1e-45])
    mixed.log({"f": f64, "h": f64, "b": f64.astype(np.float32), "n": np.array([0.0, 2.5, np.nan, -0.0]),
               "i": np.array([1, -2, 3, 2**31 - 1], np.int64), "g": np.arange(4, dtype=np.float32)}, step=20)
    mixed.log({"f": np.broadcast_to(np.float32(3), 4), "h": f64, "b": np.array([0x7F81, 0x8000, 1, 0x3F80], np.uint16),
               "n": np.array([True, False, True, True]), "i": [5, 6, 7, 8], "g": [0.5, 1, 2, 3]}, step=21)
    return f64


def check_conversions(records, f64):
    [r] = frames(records, 20)
    assert column(r, "f") == f64.astype(np.float32).tobytes()
    assert column(r, "h") == f64.astype(np.float16).tobytes()
    assert column(r, "b") == np.array([0x3FC0, 0x8000, 0x7F80, 0], np.uint16).tobytes(), column(r, "b").hex()
    assert column(r, "n") == bytes([0, 1, 1, 0])
    assert column(r, "i") == np.array([1, -2, 3, 2**31 - 1], np.int32).tobytes()
    assert column(r, "g") == np.arange(4, dtype=np.float64).tobytes()
    [r] = frames(records, 21)
    assert column(r, "f") == np.full(4, 3, np.float32).tobytes()
    assert column(r, "b") == np.array([0x7F81, 0x8000, 1, 0x3F80], np.uint16).tobytes()
    assert column(r, "n") == bytes([1, 0, 1, 1])
    assert column(r, "i") == np.array([5, 6, 7, 8], np.int32).tobytes()


def log_shapes(run):
    blk = run.block(["x", "y"], envs=5)
    cube = np.arange(30, dtype=np.float32).reshape(3, 2, 5)
    blk.log(cube, step0=30, stride=2, rl_step=4)
    blk.log(cube[0, :, :3], step=40, index=np.array([4, 0, 4]))
    blk.log({"x": cube[0, 0, :2], "y": cube[0, 1, :2]}, step=41, mask=np.array([False, True, False, True, False]))
    blk.log(np.empty((2, 0), np.float32), step=42, index=np.array([], np.int64))
    with blk.frame(step=43, rl_step=1) as f:
        f["x"][:] = cube[0, 0]
        f["y"] = 7
    try:
        with blk.frame(step=44) as f:
            f["x"][:] = 1
            raise KeyError
    except KeyError:
        pass
    blk.log(cube[0], step=45)
    for bad, match in [(dict(values=cube[0, :, :4]), "(2, 5)"), (dict(values=cube[0].T), "got (5, 2)"), (dict(values={"x": cube[0, 0]}), "all 2"),
                       (dict(values=cube[0, :, :1], index=[5]), "0 to 4"), (dict(values=cube[0, :, :1], index=[-1]), "0 to 4"),
                       (dict(values=cube[0], mask=[True]), "5 booleans"), (dict(values={"x": cube[0, 0], "z": cube[0, 0]}), "'z'")]:
        values = bad.pop("values")
        try:
            blk.log(values, step=99, **bad)
        except ValueError as e:
            assert match in str(e), (match, e)
        else:
            raise AssertionError(f"accepted: {match}")
    return cube


def check_shapes(records, cube):
    [r] = frames(records, 30)
    assert (r["steps"], r["stride"], r["rl_step"]) == (3, 2, 4)
    for t in range(3):
        assert column(r, "x", t) == cube[t, 0].tobytes() and column(r, "y", t) == cube[t, 1].tobytes()
    [r] = frames(records, 40)
    assert r["rows"] == [4, 0, 4] and column(r, "y") == cube[0, 1, :3].tobytes()
    [r] = frames(records, 41)
    assert r["rows"] == [1, 3] and column(r, "x") == cube[0, 0, :2].tobytes()
    [r] = frames(records, 42)
    assert r["rows"] == []
    [r] = frames(records, 43)
    assert column(r, "x") == cube[0, 0].tobytes() and column(r, "y") == np.full(5, 7, np.float32).tobytes()
    assert not frames(records, 44) and not frames(records, 99)
    assert len(frames(records, 45)) == 1


def log_rest(run):
    run.log_episodes(env=np.array([3, 1], np.int32), episode=[1, 2], ret=np.array([1.5, -2], np.float32), length=np.array([10, 20]), step=50)
    run.log_event("note", "grüße \"x\"", key="k")
    run.config["lr"] = 1
    run.rewind(7)
    run.log("after", 1.0, step=60)


def check_rest(records):
    [episodes] = [r for r in records if r["kind"] == 3]
    assert episodes["episodes"] == [[3, 1, 10, 1.5], [1, 2, 20, -2.0]], episodes
    events = [r["event"] for r in records if r["kind"] == 4]
    assert ["config", "", '{"lr": 0.1}'] in events and ["config", "lr", "1"] in events and ["tag", "", "t1"] in events, events
    assert ["note", "k", "grüße \"x\""] in events
    assert [r["fork_step"] for r in records if r["kind"] == 5] == [7]
    assert [r["attempt"] for r in records if r["kind"] == 2 and r["step"] == 60] == [1]
    assert [r["exit_code"] for r in records if r["kind"] == 6] == [0]


def main():
    agent = DumpAgent()
    with tallyman.init(project="bits", run_id="bits-1", socket=agent.socket, config={"lr": 0.1}, tags=["t1"], strict=True) as run:
        assert run.id == "bits-1"
        log_scalars(run)
        sent = log_blocks(run)
        f64 = log_conversions(run)
        cube = log_shapes(run)
        log_rest(run)
        assert run.flush("store", timeout=10), run.progress()
        assert run.progress()["dropped"] == 0
    records = agent.stop()
    check_scalars(records)
    check_blocks(records, sent)
    check_conversions(records, f64)
    check_shapes(records, cube)
    check_rest(records)
    print(f"{len(records)} records, all bits equal")


main()
