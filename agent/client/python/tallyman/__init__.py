# SPDX-License-Identifier: Apache-2.0
"""Logging from a trainer to the tallyman agent of this host: a memory copy per call, no waiting on disk or socket.

    import tallyman
    with tallyman.init(project="ant", config={"lr": 3e-4}) as run:
        run.log({"train/loss": 0.25}, step=1)
        blk = run.block(["reward", "ep_len"], envs=50_000, dtype="f32")
        blk.log(matrix, step=1)                # (2, 50000), one copy

Nothing but ValueError, TypeError (the call makes no sense) and RingFull (on_full="raise") leaves a log call unless
strict=True; what could not be logged is counted and shows in run.progress().

numpy is not needed, and not imported. A log call has copied its values when it returns: arrays may be overwritten at once.
"""

from ._run import Ack, Block, Error, RingFull, Run, __version__, init, open

__all__ = ["Ack", "Block", "Error", "RingFull", "Run", "__version__", "init", "open"]
