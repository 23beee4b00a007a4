"""The ways to run a case that are compared: a module each, imported in the process that measures it."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

WORLD_SIZE = 2


class Harness(Protocol):
    """What is entered once and runs cases one after the other."""

    def case(self, directory: Path) -> list[float]:
        """Run the body once on all ranks; return the seconds it took on each."""

    def spent(self) -> dict[str, float]:
        """Return the seconds that went into each stretch of the last case, where that is known."""


@dataclass(frozen=True)
class Entry:
    """A harness, how it is called in the report, and whether its cases take seconds each."""

    module: str
    title: str
    is_slow: bool = False
    start_method: str = ""


ENTRIES = {
    "fork": Entry("launcher", "canishard, forked", start_method="fork"),
    "continuous": Entry("continuous", "`MultiProcContinuousTest` (ranks shared by all cases)"),
    "spawn": Entry("launcher", "canishard, spawned", is_slow=True, start_method="spawn"),
    "mp_spawn": Entry("mp_spawn", "`torch.multiprocessing.spawn` a case", is_slow=True),
    "mp_test_case": Entry("mp_test_case", "`MultiProcessTestCase` (spawned a test)", is_slow=True),
}
FORK, CONTINUOUS, PER_TEST = "fork", "continuous", "mp_test_case"


def enter(name: str, body: str) -> AbstractContextManager[Harness]:
    """Import a harness and make it ready for a body."""
    entry = ENTRIES[name]
    module = importlib.import_module(f"{__name__}.{entry.module}")
    opened: AbstractContextManager[Harness] = module.opened(body, entry.start_method)
    return opened
