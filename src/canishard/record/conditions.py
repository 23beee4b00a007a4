"""Under which conditions a cell was measured: the one value by which all decide what is known, and what may stand together.

The journal, ``--reuse-committed`` and merge compare it as it is; a stamp, which has to answer before torch is
installed, compares what of it can be known then. What else a record says of where it was made, the patches of Python
and of glibc or who measured, cannot change a cell, and decides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from canishard.launch import refusals
from canishard.launch.outcome import Case, Outcome, Status
from canishard.record.environment import Environment, Variant

NEVER_REUSED = frozenset({Status.INFRA, Status.FLAKY, Status.NOT_RUN})
"""What settles nothing is measured again; what could not be run may be once packages or devices are there."""


class Conditions(msgspec.Struct, kw_only=True, frozen=True):
    """What all cells of a record have in common, as far as it can change one of them."""

    environment: Environment
    """Release, build, backend, device, Python without its patch, and platform."""
    torch: str
    git_version: str
    cuda: str
    hip: str
    nccl: str
    libc: str
    """``glibc``, or an empty text: wheels are built against one that is older than any that they meet."""
    packages: dict[str, str]
    backend_module: str
    devices: dict[str, int]
    """How many of which kind; empty on CPU."""
    variables: dict[str, str]
    """The environment variables of the ranks that can change what torch does."""

    @classmethod
    def of(
        cls,
        environment: Environment,
        variant: Variant,
        *,
        variables: Mapping[str, str],
        devices: Mapping[str, int] | None = None,
        backend_module: str = "",
    ) -> Conditions:
        """Return the conditions that a series, a build and what surrounds them stand for."""
        return cls(
            environment=environment,
            torch=variant.torch,
            git_version=variant.git_version,
            cuda=variant.cuda or "",
            hip=variant.hip or "",
            nccl=variant.nccl or "",
            libc="glibc" if variant.glibc else "",
            packages=dict(variant.packages),
            backend_module=backend_module,
            devices=dict(devices or {}),
            variables=dict(variables),
        )

    @property
    def key(self) -> str:
        """Return twelve hex digits that stand for them."""
        text = msgspec.json.encode(self, order="deterministic")
        return hashlib.sha256(text).hexdigest()[:12]

    def differing(self, other: Conditions) -> list[str]:
        """Say in words where others differ: ``nccl 2.27.3 there, none here``; ``here`` are the others."""
        names = [name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name)]
        return [
            f"{name} {_shown(*pair)} there, {_shown(*reversed(pair))} here"
            for name in names
            for pair in [(getattr(self, name), getattr(other, name))]
        ]


def _shown(value: Any, other: Any) -> str:
    """Return a value in words; of a table what the other one has not."""
    if isinstance(value, dict):
        own = {name: value[name] for name in sorted(value) if other.get(name) != value[name]}
        return ", ".join(f"{name} {own[name]}" for name in own) or "none"
    return getattr(value, "name", str(value)) or "none"


def answers(outcome: Outcome, case: Case) -> bool:
    """Tell whether an outcome that was measured under the same conditions says what a case would do now.

    It does where the check is the same (the deadline that it declares included), the outcome settles something, and
    today's wordings would call it the same.
    """
    return (
        outcome.digest == case.digest
        and outcome.status not in NEVER_REUSED
        and refusals.load().still_says(outcome)
    )
