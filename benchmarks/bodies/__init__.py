"""What runs in a case, whatever the harness: a function on an initialised process group, in a module a body.

A body returns what it got and what is right. Its module imports what a test file of its own would import; this
one imports torch when it is called, so that the parent of the launcher stays without it.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("all_reduce", "fsdp2_step", "dcp_round_trip")
BODY = "CANISHARD_BENCH_BODY"
DIRECTORY = "CANISHARD_BENCH_DIRECTORY"
"""Environment variables that the processes of the other harnesses inherit: which body runs, and where."""

Body = Callable[[int, int, Path], tuple[Any, Any]]


def find(name: str) -> Body:
    """Import a body."""
    body: Body = importlib.import_module(f"{__name__}.{name}").body
    return body


def timed(body: Body, rank: int, world_size: int, directory: Path) -> tuple[Any, Any, float]:
    """Run a body; return what it got, what is right, and its seconds."""
    began = time.perf_counter()
    got, wanted = body(rank, world_size, directory)
    return got, wanted, time.perf_counter() - began


def run(rank: int, world_size: int) -> None:
    """Run the body that the environment names on a rank, compare, and leave its seconds in the directory."""
    torch: Any = importlib.import_module("torch")
    directory = Path(os.environ[DIRECTORY])
    got, wanted, seconds = timed(find(os.environ[BODY]), rank, world_size, directory)
    torch.testing.assert_close(got, wanted)
    (directory / f"seconds-{rank}").write_text(repr(seconds), encoding="utf-8")


def seconds(directory: Path) -> list[float]:
    """Return what the ranks of a case left: the seconds of the body on each."""
    return [float(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("seconds-*"))]
