"""The classes of change in words, and which records of two releases stand against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from canishard.facts.compare import Change
from canishard.record.environment import Environment

_Build = TypeVar("_Build")

MEANINGS = {
    Change.NEWLY_WRONG: "gives a wrong value without an error, and did not",
    Change.REGRESSED: "passed, and does not any more",
    Change.CHANGED_KIND: "fails in another way",
    Change.LOST_COVERAGE: "was measured, and could not be run",
    Change.INDETERMINATE: "flaky or unknown on a side, so nothing follows",
    Change.REMOVED: "was not measured on the newer one",
    Change.ADDED: "was not measured on the older one",
    Change.FIXED: "passes, and did not",
    Change.SAME: "did not change",
}
"""What each change means, in the order in which they are shown: the worst first, what is no change last."""

WORDS = {change: change.value.replace("_", " ") for change in MEANINGS}
"""What each change is called."""


def alike(
    olds: Sequence[_Build], news: Sequence[_Build], environment: Callable[[_Build], Environment]
) -> list[tuple[_Build, _Build]]:
    """Return which builds of two releases are compared, both in the order given.

    Where several were measured, each stands against the same build of the other release, on the same Python
    where there is that; only where there is none of it, another build.
    """
    for fields in (("flavour", "python", "system", "machine"), ("flavour", "system", "machine")):
        found = [
            (old, new)
            for new in news
            for old in olds
            if all(getattr(environment(old), name) == getattr(environment(new), name) for name in fields)
        ]
        if found:
            return found
    return [(olds[0], news[0])]
