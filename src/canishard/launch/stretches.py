"""Where the time of a case goes: what lies between the moments at which its last rank began each phase.

Standard library only; pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from canishard.launch.judge import RankState

SERVER = "server"
_OF_A_STAGE = ("start", "load", "init", "body", "teardown", "clean-up")
STRETCHES = (SERVER, *_OF_A_STAGE)
"""Starting a server; then a stage: its processes started, modules imported in them, the group joined, the body run
until every rank has reported or is given up, ranks leaving, what is left killed and removed."""


def of_stage(
    ranks: Iterable[RankState], began: float, reported: float, left: float, ended: float
) -> dict[str, float]:
    """Return the seconds of each stretch of a stage; they add up to all of it.

    A phase that no rank reached has no time of its own: what came of it counts for the one before.
    """
    moments = [began]
    for phase in ("start", "init", "body"):
        moments.append(max([moments[-1], *(state.began[phase] for state in ranks if phase in state.began)]))
    moments += [max(reported, moments[-1]), left, ended]
    return {
        name: later - earlier for name, (earlier, later) in zip(_OF_A_STAGE, pairwise(moments), strict=True)
    }


def add(total: dict[str, float], spent: Mapping[str, float]) -> None:
    """Add seconds to a total, stretch by stretch."""
    for name, seconds in spent.items():
        total[name] = total.get(name, 0.0) + seconds


def table(spent: Mapping[str, float]) -> str:
    """Return a line a stretch: its seconds, its share of all of them, its name."""
    total = sum(spent.values()) or 1.0
    lines = [
        f"{spent[name]:8.2f} s {100 * spent[name] / total:4.0f} %  {name}"
        for name in STRETCHES
        if name in spent
    ]
    return "\n".join(lines)
