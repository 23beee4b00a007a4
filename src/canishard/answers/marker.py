"""``@pytest.mark.canishard(needs=[...])``: a test that is skipped, or expected to fail, by the published table.

Only loaded in a run that uses the marker.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.version import InvalidVersion, Version

from canishard.answers import needs as needed
from canishard.answers import published
from canishard.answers.needs import Finding
from canishard.answers.published import Answer, Verdict
from canishard.errors import CanishardError, ConfigurationError

NAME = "canishard"
SKIP, XFAIL = "skip", "xfail"
SHOWN = 3
"""How many of the rows that do not work a reason spells out; the others are counted."""
OUTDATED = "; if the test passes, the table may be out of date"
"""What a reason adds that pytest also gives where the test passes, which is then a failure."""


@dataclass(frozen=True)
class Wanted:
    """What a marker says."""

    needs: tuple[str, ...]
    on_fail: str
    backend: str
    device: str
    world_size: int | None


def canishard(
    needs: Any,
    *,
    on_fail: Any = SKIP,
    backend: Any = "gloo",
    device: Any = "cpu",
    world_size: Any = None,
) -> Wanted:
    """Return what the marker's arguments, which are these, ask for.

    ``needs`` are ids, patterns, families or subjects, as ``canishard check --needs`` takes them. Raises
    ConfigurationError where an argument is not what it has to be.
    """
    texts = [needs] if isinstance(needs, str) else needs
    is_list = isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
    _require("needs", needs, is_list, "a list of ids, patterns, families or subjects")
    found = tuple(need for text in texts for need in needed.split(text))
    _require("needs", needs, bool(found), "at least one, without which the marker says nothing")
    _require("on_fail", on_fail, on_fail in (SKIP, XFAIL), f"{SKIP!r} or {XFAIL!r}")
    _require("backend", backend, isinstance(backend, str), "a text such as 'gloo'")
    _require("device", device, isinstance(device, str), "a text such as 'cpu'")
    # By type, for True is an int too.
    is_number = world_size is None or (type(world_size) is int and world_size > 0)
    _require("world_size", world_size, is_number, "a number of ranks")
    return Wanted(found, on_fail, backend, device, world_size)


def _require(name: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        msg = f"{name}={value!r}: expected {expected}"
        raise ConfigurationError(msg)


def apply(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the items with the marker what it asks for; those with a wrong one are errors of the collection."""
    faults: dict[pytest.Item, str] = {}
    for item in items:
        try:
            for mark in item.iter_markers(NAME):
                if found := _effect(_read(mark)):
                    item.add_marker(found)
        except CanishardError as error:
            faults[item] = str(error)
    for item, fault in faults.items():
        # A report and no UsageError: an xdist worker would die of the latter, and its controller with it. It also
        # takes reports of one text for one report, so that the text names the test.
        text = f"{item.nodeid}: {NAME} marker: {fault}"
        config.hook.pytest_collectreport(report=pytest.CollectReport(item.nodeid, "failed", text, []))
    items[:] = [item for item in items if item not in faults]


def _read(mark: pytest.Mark) -> Wanted:
    try:
        return canishard(*mark.args, **mark.kwargs)
    except TypeError as error:  # Python's own words about arguments that are missing or not known.
        raise ConfigurationError(str(error)) from None


@functools.cache
def _effect(wanted: Wanted) -> pytest.MarkDecorator | None:
    """Return the marker of pytest's own that a test gets; None where nothing is known not to work."""
    dataset = published.load()
    rows = needed.resolve(wanted.needs, dataset)
    torch = torch_version()
    if not torch:
        return None
    finding = needed.evaluate(
        dataset,
        rows,
        torch=torch,
        backend=wanted.backend,
        device=wanted.device,
        world_size=wanted.world_size,
    )
    if not finding.blocked:
        return None
    if wanted.on_fail == SKIP:
        return pytest.mark.skip(reason=reason(finding))
    # What works in part, or at times, may pass.
    strict = any(answer.verdict is Verdict.NO for answer in finding.blocked)
    return pytest.mark.xfail(reason=f"{reason(finding)}{OUTDATED if strict else ''}", strict=strict)


def reason(finding: Finding) -> str:
    """Return why needs are not met, in one line, with what mends it."""
    parts = list(_told(finding.blocked[:SHOWN]))
    if more := len(finding.blocked[SHOWN:]):
        parts.append(f"and {more} more of the rows that are needed")
    return f"{NAME}: {'; '.join(parts)}"


def _told(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield an answer each, and what to do about it; the same advice once."""
    advised = set[str]()
    for answer in answers:
        yield str(answer)
        if answer.mends and answer.mends not in advised:
            advised.add(answer.mends)
            yield answer.mends.rstrip(".")


def torch_version() -> str:
    """Return the version of the torch that tests will import, its build included; empty where there is none.

    torch is not started for it, unless it has been already.
    """
    if loaded := sys.modules.get("torch"):
        found = str(getattr(loaded, "__version__", ""))
    else:
        found = _version_file() or _metadata()
    try:
        Version(found)
    except InvalidVersion:
        return ""  # Somebody's own build: nothing is known of it.
    return found


def _version_file() -> str:
    """Return what torch says of itself: PyPI's metadata leave out which build it is."""
    spec = importlib.util.find_spec("torch")
    path = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    return str(runpy.run_path(str(path)).get("__version__", "")) if path and path.is_file() else ""


def _metadata() -> str:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""
