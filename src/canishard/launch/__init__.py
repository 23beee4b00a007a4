"""Run a function on several ranks with a watchdog, stacks and clean-up. The parent never imports torch.

``run_on_ranks(function, world_size=2, check=True)`` is all that most tests need: RanksFailed is a test's failure.
``Ranks`` keeps what it starts for as long as one likes. ``Launcher`` runs checks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from canishard.launch.client import ServerLost, recorded_environment
from canishard.launch.launcher import START_METHODS, Launcher, OwnChecks
from canishard.launch.outcome import Outcome, Status
from canishard.launch.verdict import Rules
from canishard.launch.watch import Where

if TYPE_CHECKING:
    from canishard.launch.own import Ranks, RanksFailed, explain, run_on_ranks

__all__ = [
    "START_METHODS",
    "Launcher",
    "Outcome",
    "OwnChecks",
    "Ranks",
    "RanksFailed",
    "Rules",
    "ServerLost",
    "Status",
    "Where",
    "explain",
    "recorded_environment",
    "run_on_ranks",
]

_LATE = frozenset({"Ranks", "RanksFailed", "explain", "run_on_ranks"})
"""Loaded when they are first asked for: servers and ranks import this package too."""


if not TYPE_CHECKING:  # It would let every misspelt name pass.

    def __getattr__(name: str) -> Any:
        """Return a name of ``own``."""
        if name not in _LATE:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(importlib.import_module("canishard.launch.own"), name)
