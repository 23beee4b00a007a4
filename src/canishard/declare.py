"""How a check is declared: the decorator, what a table of rows is made of, and the stages of a case.

Checks take it from ``canishard.check``; this half of it decides no result. The standard library only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DEFAULT_DEADLINE_S = 30.0
"""Seconds that the ranks have between joining and reporting. The longest check here needs under 5 s."""


@dataclass(frozen=True)
class Stage:
    """One part of a check, run by processes of its own; the stages of a case share its directory.

    ``world_size`` None means the case's own. Without ``process_group`` the stage joins no group.
    """

    name: str
    world_size: int | None = None
    process_group: bool = True


@dataclass(frozen=True, kw_only=True)
class Row:
    """An entry of a table of rows: what the check is handed, and what the entry's reader sees.

    What is not said here is as the check declares it; ``needs``, ``rests_on`` and ``packages`` are added to the
    check's. ``where`` is a pattern (see ``check``) that the combinations of this entry agree with.
    """

    recipe: Any
    title: str = ""
    feature: str = ""
    needs: Sequence[str | Sequence[str]] = ()
    rests_on: Sequence[str] = ()
    packages: Sequence[str] = ()
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One declared check, as it was declared; ``catalogue.expansion`` tells its cases."""

    function: Callable[..., None]
    family: str
    subject: str
    feature: str
    title: str
    params: Mapping[str, Sequence[Any]]
    rows: Mapping[str, Mapping[str, Any]]
    world_sizes: tuple[int, ...]
    combinations: Sequence[Mapping[str, Any]]
    exclude: Sequence[Mapping[str, Any]]
    needs: Sequence[str | Sequence[str]]
    rests_on: Sequence[str]
    workaround: str | None
    stages: tuple[Stage, ...]
    packages: Sequence[str]
    slow: bool
    deadline_s: float


CHECKS: list[Check] = []
"""Every check whose module has been imported, in the order of declaration."""


def check(
    *,
    feature: str,
    subject: str | None = None,
    params: Mapping[str, Sequence[Any]] | None = None,
    rows: Mapping[str, Mapping[str, Any]] | None = None,
    world_sizes: Sequence[int] = (2, 4),
    combinations: Sequence[Mapping[str, Any]] = (),
    exclude: Sequence[Mapping[str, Any]] = (),
    needs: Sequence[str | Sequence[str]] = (),
    rests_on: Sequence[str] = (),
    workaround: str | None = None,
    stages: Sequence[Stage] = (Stage("run"),),
    packages: Sequence[str] = (),
    slow: bool = False,
    deadline_s: float = DEFAULT_DEADLINE_S,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a function ``(context, **params)``, run on every rank, as a check.

    Its id is ``<family>.<subject or function name>[param=value,...]``, with ``+workaround`` at the end; the
    first line of its docstring is the title of its rows. An entry of ``needs`` is a dotted name, or several
    of which the first that exists is taken (``context.api`` holds what was found, by the last part of the
    first name); where none exists the case is ``missing`` and no rank is started. ``rests_on`` holds id
    patterns of the checks that explain a failure of this one, ``packages`` the distributions it imports.

    ``rows`` names one more parameter, the first of the id, and its table: ``{"op": TABLE}``, where ``TABLE`` is a dict
    literal of recipes, or of ``Row``. The function is ``(context, recipe, **params)`` then; what it reaches of the
    table by the recipe alone counts for that row alone.

    Of the product of all parameters and world sizes those are kept that agree with a pattern of ``combinations``,
    where there are any, and with none of ``exclude``. A pattern maps parameters, or ``world_size``, to a value or a
    tuple of values: ``{"mesh": "2x2", "world_size": 4}``.

    Raises ValueError for a function without a docstring, and for more than one table.
    """

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        if not (function.__doc__ or "").strip():
            msg = f"{function.__module__}.{function.__qualname__}: a check needs a docstring, its row's title"
            raise ValueError(msg)
        handed = handing(function, rows) if rows else function
        declared = Check(
            function=handed,
            family=family_of(function.__module__),
            subject=subject or function.__name__,
            feature=feature,
            title=(function.__doc__ or "").strip().splitlines()[0].rstrip("."),
            params=params or {},
            rows=rows or {},
            world_sizes=tuple(world_sizes),
            combinations=combinations,
            exclude=exclude,
            needs=needs,
            rests_on=rests_on,
            workaround=workaround,
            stages=tuple(stages),
            packages=packages,
            slow=slow,
            deadline_s=deadline_s,
        )
        CHECKS.append(declared)
        return handed

    return declare


def family_of(module: str) -> str:
    """Return the family of a module's checks: for one of ours its folder, else the module's own name."""
    inner = module.removeprefix("canishard.checks.")
    return inner.partition(".")[0] if inner != module else module.rpartition(".")[2]


def handing(function: Callable[..., None], rows: Mapping[str, Mapping[str, Any]]) -> Callable[..., None]:
    """Return a check's function that takes parameters alone and looks the recipe up in its table."""
    if len(rows) != 1:
        msg = f"{function.__module__}.{function.__qualname__}: rows={list(rows)}: expected one parameter with its table"
        raise ValueError(msg)
    name, table = next(iter(rows.items()))

    @functools.wraps(function)
    def handed(context: Any, **params: Any) -> None:
        entry = table[params[name]]
        function(context, entry.recipe if isinstance(entry, Row) else entry, **params)

    return handed
