# SPDX-License-Identifier: Apache-2.0
"""Runs, blocks and frames: what `import tallyman` gives."""

from __future__ import annotations

import atexit
import json
import os
import sys
import warnings
import weakref
from typing import Any, Iterable, Mapping, Optional, Sequence

from . import _tallyman

__version__ = "0.1.0"

_DTYPES = {"f16": 1, "bf16": 2, "f32": 3, "f64": 4, "i8": 5, "i16": 6, "i32": 7, "i64": 8, "u8": 9, "u16": 10, "u32": 11,
           "u64": 12, "bool": 13}
_ALIASES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32",
            "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64"}
_WIDTHS = {1: 2, 2: 2, 3: 4, 4: 8, 5: 1, 6: 2, 7: 4, 8: 8, 9: 1, 10: 2, 11: 4, 12: 8, 13: 1}
# What the claimed bytes of a frame look like: (memoryview format, numpy dtype). f16 and bf16 are their bits without numpy.
_VIEWS = {1: ("H", "f2"), 2: ("H", "u2"), 3: ("f", "f4"), 4: ("d", "f8"), 5: ("b", "i1"), 6: ("h", "i2"), 7: ("i", "i4"),
          8: ("q", "i8"), 9: ("B", "u1"), 10: ("H", "u2"), 11: ("I", "u4"), 12: ("Q", "u8"), 13: ("?", "?")}
_LEVELS = {"disk": 1, "receiver": 2, "store": 3}
_ON_FULL = {"block": 0, "drop": 1, "raise": 2}
_NO_FORK = 2 ** 63 - 1
_EAGAIN, _EINVAL, _ENOENT = 11, 22, 2
_open_runs: weakref.WeakSet[Run] = weakref.WeakSet()


class Error(RuntimeError):
    """The agent or this machine refused something; raised only by strict runs."""


class RingFull(Error):
    """The ring is full and on_full="raise"."""


class Ack:
    """What flush reached: true when the level was, else `error` says what is missing."""

    def __init__(self, level: str, reached: bool, error: str = "") -> None:
        self.level, self.reached, self.error = level, reached, error

    def __bool__(self) -> bool:
        return self.reached

    def __repr__(self) -> str:
        return f"Ack({self.level!r}, reached={self.reached})"


def _dtype_code(dtype):
    name = getattr(dtype, "__name__", None) or str(dtype).rsplit(".", 1)[-1]
    code = _DTYPES.get(_ALIASES.get(name, name))
    if code is None:
        raise ValueError(f"unknown dtype {dtype!r}; use one of {', '.join(_DTYPES)}")
    return code


def _json(value):
    """JSON of anything: NaN and infinities as text, unknown objects by their repr, cycles refused."""
    def plain(v):
        if isinstance(v, float) and (v != v or v in (float("inf"), float("-inf"))):
            return str(v)
        if isinstance(v, dict):
            return {str(k): plain(x) for k, x in v.items()}
        if isinstance(v, (list, tuple, set, frozenset)):
            return [plain(x) for x in v]
        return v

    try:
        return json.dumps(plain(value), default=repr, ensure_ascii=False)
    except RecursionError:
        raise ValueError("config must not contain itself") from None


class _Config(dict):
    """The run's configuration; a change is shipped as an event."""

    def __init__(self, run, values):
        super().__init__(values)
        self._run = run

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self._run._event("config", str(key), _json(value), None)

    def update(self, *args, **kwargs):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value


class _Frame:
    """Space of one frame in the ring: `with blk.frame(step=n) as f: f["reward"][:] = r`. An exception aborts it.

    Without room in the ring the values go to scratch memory and are counted as dropped. The views end with the block."""

    def __init__(self, block, step, time, rl_step):
        self._block, self._args, self._views = block, (step, time, rl_step), {}

    def __enter__(self):
        block = self._block
        places = block._claim(*self._args, block._widths)
        self._claimed = places is not None
        if places is None:
            places = [memoryview(bytearray(w * block.envs)) for w in block._widths]
        numpy = sys.modules.get("numpy")
        for name, code, raw in zip(block.metrics, block._dtypes, places):
            form, np_dtype = _VIEWS[code]
            self._views[name] = raw.cast(form) if numpy is None else numpy.frombuffer(raw, dtype=np_dtype)
        return self

    def __getitem__(self, metric):
        return self._views[metric]

    def __setitem__(self, metric, values):
        self._views[metric][:] = values

    def __exit__(self, kind, value, trace):
        self._views = {}
        if self._claimed:
            if kind is None:
                self._block._commit()
            else:
                self._block._abort()
        return False


class Block(_tallyman.Block):
    """M metrics x N environments, each metric of one dtype; made by Run.block.

    log(values, step=n) takes one frame, log(values, step0=n, stride=1) T steps at once. values is
      a dict of every metric to an array of shape (N,) or (T, N), or one array of shape (M, N) or (T, M, N):
      numpy, torch, jax, anything with a buffer; any strides; converted to the block's dtypes on the way.
    index= (K environments, relative to env0, any order, repeats allowed) or mask= (N booleans) logs a subset: N is then K.
    rl_step= an integer, time= nanoseconds since 1970 or a datetime (default: now). The arrays are copied on return."""

    metrics: list[str]
    envs: int
    env0: int
    _dtypes: bytes
    _widths: bytes

    def frame(self, step: int, time: Any = None, rl_step: Optional[int] = None) -> _Frame:
        """Space in the ring to compute into: views of shape (N,) by metric name, shipped when the `with` ends well."""
        return _Frame(self, step, time, rl_step)


class _NoBlock:
    """Stands in for a block the agent refused: checks nothing, counts nothing, logs nothing."""

    def log(self, *args, **kwargs):
        return None

    def frame(self, step, time=None, rl_step=None):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False

    def __getitem__(self, metric):
        return self

    def __setitem__(self, metric, values):
        return None


class Run(_tallyman.Run):
    """One producer per thread that logs; a context manager that finishes the run.

    log({"name": value, ...}, step=n) or log("name", value, step=n): one point each. A value is a bool, int (64 bits), float, numpy
    scalar, or an array of one element, and keeps its dtype and bits; step is any integer of 64 bits, in any order."""

    config: _Config
    finished: bool
    errors: int
    _said: set[str]
    _run_id: str
    _pid: int

    def _setup(self, strict: bool, silent: bool) -> None:
        self._strict, self._silent, self._said, self.finished, self.errors = strict, silent, set(), False, 0

    def _fault(self, code, sentence):
        if code == -_EAGAIN:
            raise RingFull(sentence)
        if code in (-_EINVAL, -_ENOENT):
            raise ValueError(sentence)
        self.errors += 1
        if self._strict:
            raise Error(sentence)
        self._warn(sentence)

    def _warn(self, sentence):
        if not self._silent and sentence not in self._said and len(self._said) < 100:
            self._said.add(sentence)
            warnings.warn(f"tallyman: {sentence}", RuntimeWarning, stacklevel=3)

    @property
    def id(self) -> str:
        """1 to 128 of [A-Za-z0-9_.-]; what `tallyman query` and reconcile take."""
        return self._run_id

    def block(self, metrics: Iterable[str], envs: int, env0: int = 0, dtype: Any = "f32") -> Block:
        """Registers a matrix of len(metrics) x envs series; this producer logs environments env0 to env0 + envs - 1.

        dtype: f16 bf16 f32 f64 i8 .. i64 u8 .. u64 bool, or numpy's or torch's; or a dict with one per metric."""
        metrics = list(metrics)
        per_metric = dtype if isinstance(dtype, dict) else dict.fromkeys(metrics, dtype)
        missing = [m for m in metrics if m not in per_metric]
        if missing or len(set(metrics)) != len(metrics):
            raise ValueError(f"dtype= lacks {missing}" if missing else "a metric is named twice")
        codes = bytes(_dtype_code(per_metric[m]) for m in metrics)
        out = Block()
        out.metrics, out.envs, out.env0 = metrics, int(envs), int(env0)
        out._dtypes, out._widths = codes, bytes(_WIDTHS[c] for c in codes)
        rc = out._open(self, metrics, codes, out.env0, out.envs)
        if rc < 0:
            self._fault(rc, self._progress()["error"])
            return _NoBlock()  # type: ignore[return-value]
        return out

    def log_episodes(self, env: Any, episode: Any, ret: Any, length: Any, step: int, stride: int = 1, time: Any = None,
                     rl_step: Optional[int] = None) -> None:
        """Episodes that ended at `step`: arrays of shape (K,): environment, number of the episode, return, length in steps."""
        self._episodes(env, episode, length, ret, step, stride, time, rl_step)

    def log_event(self, kind: str, text: Any = "", key: str = "", time: Any = None) -> None:
        """Text beside the points, at most 64 KiB; what is no str becomes JSON."""
        self._event(kind, key, text if isinstance(text, str) else _json(text), time)

    def log_file(self, path: Any) -> None:
        raise NotImplementedError("log_file: shipping files is not part of this version; log_event can name where the file lies")

    def rewind(self, step: int) -> None:
        """Opens the next attempt of this thread's producer: its points from `step` on are superseded, none is deleted."""
        self._rewind(step)

    def flush(self, level: str = "disk", timeout: float = 30.0) -> Ack:
        """Waits at most `timeout` seconds until all that this process logged reached "disk", "receiver" or "store"."""
        if level not in _LEVELS:
            raise ValueError(f"flush level {level!r}; use disk, receiver or store")
        rc = self._flush(_LEVELS[level], int(timeout * 1e9))
        return Ack(level, rc == 0, "" if rc == 0 else self._progress()["error"])

    def progress(self) -> dict[str, Any]:
        """Counts: points logged and dropped, ring bytes logged, durable, received, stored; connected, the last error."""
        return {**self._progress(), "errors": self.errors}

    def finish(self, exit_code: int = 0) -> None:
        """Closes the run's producers of this process; waits at most 10 s for the disk. Again is nothing."""
        if self.finished:
            return
        self.finished = True
        _open_runs.discard(self)
        if self._close(exit_code) < 0:
            self._warn("not everything is on disk: the agent did not take it in time")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        code = value.code if kind is SystemExit and isinstance(value.code, int) else 0 if kind in (None, SystemExit) else 1
        self.finish(code)


def _text(value):
    return None if value is None else str(value)


def init(project: Optional[str] = None, name: Optional[str] = None, run_id: Optional[str] = None, resume: str = "allow",
         fork_step: Optional[int] = None, producers: Optional[int] = None, role: Optional[str] = None,
         config: Optional[Mapping[str, Any]] = None, tags: Sequence[str] = (), mode: Optional[str] = None,
         labels: Optional[Mapping[str, Any]] = None, console: bool = False, on_full: str = "block", block_timeout: float = 1.0,
         strict: bool = False, continues: Optional[str] = None, socket: Optional[str] = None) -> Run:
    """Opens a run. The agent need not be there; when it is and refuses, this warns and logs nothing (strict: raises).

    run_id     1 to 128 of [A-Za-z0-9_.-]; default: random. Many producers on many hosts may write one run
    producers  how many the run will have, so that `reconcile` knows when all are there
    continues  the producer (UUID) that this one resumes; fork_step: the first step that it supersedes
    on_full    when the ring is full: "block" (at most block_timeout seconds in all until there is room), "drop", or "raise"
    mode       "online" or "disabled" (every call does nothing)
    socket     of the agent; default /run/tallyman/agent.sock

    An argument wins over TALLYMAN_PROJECT, _NAME, _RUN_ID, _MODE, _SOCKET, _DISABLED; TALLYMAN_SILENT=1 prints no warning."""
    if on_full not in _ON_FULL:
        raise ValueError(f"on_full {on_full!r}; use block, drop or raise")
    if mode not in (None, "online", "disabled"):
        raise ValueError(f"mode {mode!r}; use online or disabled")
    if resume not in ("allow", "must", "never"):
        raise ValueError(f"resume {resume!r}; use allow, must or never")
    if console:
        raise NotImplementedError("console=True: run the trainer under `tallyman run --` to ship its output")
    run = Run()
    run._setup(strict, os.environ.get("TALLYMAN_SILENT", "") not in ("", "0"))
    fork = _NO_FORK if fork_step is None else int(fork_step)
    settings = [_text(socket), _text(project), _text(name), _text(run_id), _text(role), _json(labels) if labels else None,
                _json(config) if config else None, _text(continues), fork, int(producers or 0), _ON_FULL[on_full],
                max(1, int(block_timeout * 1e9)), {None: 0, "online": 1, "disabled": 2}[mode]]
    rc, sentence = run._open(*settings)
    if rc == -_EINVAL:
        raise ValueError(sentence)
    if rc < 0:
        if strict:
            raise Error(sentence)
        run._warn(sentence + "; this run logs nothing")
        settings[-1] = 2
        run._open(*settings)
    run._run_id, run._pid = run._id(), os.getpid()
    run.config = _Config(run, config or {})
    for tag in tags:
        run._event("tag", "", str(tag), None)
    _open_runs.add(run)
    return run


def open(where: Any) -> Any:
    """Reading back; use `tallyman query`, `tallyman sql` or `tallyman export` with this version."""
    raise NotImplementedError("tallyman.open: read with `tallyman query`, `tallyman sql` or `tallyman export`")


# Best effort only: mp.Process and os._exit do not come here, and the agent sees the end of a process by itself.
def _finish_all():
    for run in list(_open_runs):
        if run._pid == os.getpid():
            run.finish(0)


atexit.register(_finish_all)
