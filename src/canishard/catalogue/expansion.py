"""The rows of a declared check: the combinations of its parameters that make sense, and what each is called.

The catalogue reads declarations from sources, a child with torch finds them as objects; both are expanded here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from canishard.catalogue import ids

Pattern = dict[str, Any]
"""Parameters, or ``world_size``, each with its value or several."""
WORLD_SIZE = "world_size"
Need = str | list[str]


class Labels(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What an entry of a table says of itself, its recipe left out."""

    title: str = ""
    feature: str = ""
    needs: list[Need] = []
    rests_on: list[str] = []
    packages: list[str] = []
    where: Pattern = {}


class Declared(msgspec.Struct, kw_only=True):
    """A check, as its decorator says."""

    family: str
    function: str
    title: str
    feature: str
    subject: str | None = None
    params: dict[str, list[str | int | float | bool]] = {}
    rows: dict[str, dict[str, Labels]] = {}
    world_sizes: list[int] = msgspec.field(default_factory=lambda: [2, 4])
    combinations: list[Pattern] = []
    exclude: list[Pattern] = []
    needs: list[Need] = []
    rests_on: list[str] = []
    workaround: str | None = None
    packages: list[str] = []


class Expanded(msgspec.Struct, kw_only=True, frozen=True):
    """One row of a check."""

    id: str
    params: dict[str, Any]
    entry: str
    """The key of the check's table; empty where it has none."""
    world_sizes: list[int]
    feature: str
    title: str
    needs: list[list[str]]
    rests_on: list[str]
    packages: list[str]


def expand(declared: Declared) -> list[Expanded]:
    """Return the rows of a check in their order; ValueError says which pattern fits nothing."""
    patterns = [*declared.combinations, *declared.exclude]
    patterns += [labels.where for table in declared.rows.values() for labels in table.values()]
    _require_sense(declared, patterns)
    return list(_rows(declared))


def _rows(declared: Declared) -> Iterator[Expanded]:
    name, table = next(iter(declared.rows.items()), ("", {}))
    subject, workaround = declared.subject or declared.function, declared.workaround or ""
    values: Mapping[str, Sequence[Any]] = {**({name: list(table)} if name else {}), **declared.params}
    for chosen in itertools.product(*values.values()):
        params = dict(zip(values, chosen, strict=True))
        entry = params.get(name, "")
        labels = table.get(entry, Labels())
        sizes = [size for size in declared.world_sizes if _makes_sense(declared, labels, params, size)]
        if sizes:
            yield Expanded(
                id=ids.build(declared.family, subject, params, workaround),
                params=params,
                entry=entry,
                world_sizes=sizes,
                feature=labels.feature or declared.feature,
                title=labels.title or declared.title,
                needs=[
                    [need] if isinstance(need, str) else list(need)
                    for need in [*declared.needs, *labels.needs]
                ],
                rests_on=[*declared.rests_on, *labels.rests_on],
                packages=[*declared.packages, *labels.packages],
            )


def _makes_sense(declared: Declared, labels: Labels, params: Mapping[str, Any], size: int) -> bool:
    combination = {**params, WORLD_SIZE: size}
    is_listed = not declared.combinations or any(_agrees(one, combination) for one in declared.combinations)
    is_excluded = any(_agrees(one, combination) for one in declared.exclude)
    return is_listed and not is_excluded and _agrees(labels.where, combination)


def _agrees(pattern: Pattern, combination: Mapping[str, Any]) -> bool:
    return all(combination[name] in _several(value) for name, value in pattern.items())


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _require_sense(declared: Declared, patterns: Sequence[Pattern]) -> None:
    """Raise ValueError where a pattern names what there is not: it would leave out nothing, or all."""
    tables = {name: list(table) for name, table in declared.rows.items()}
    known: dict[str, Sequence[Any]] = {**tables, **declared.params, WORLD_SIZE: declared.world_sizes}
    twice = [name for name in tables if name in declared.params]
    for pattern in patterns:
        for name, value in pattern.items():
            odd = [one for one in _several(value) if one not in known.get(name, ())]
            if odd or not _several(value):
                allowed = ", ".join(map(repr, known.get(name, known)))
                msg = f"{declared.function}: {pattern}: {name}={value!r}: allowed: {allowed}"
                raise ValueError(msg)
    if twice or WORLD_SIZE in {*tables, *declared.params}:
        msg = f"{declared.function}: {(twice or [WORLD_SIZE])[0]} cannot be a parameter besides"
        raise ValueError(msg)
