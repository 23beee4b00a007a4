"""What could not be measured, and why: ``matrix/unmeasured.json``, so that a release leaves a trace where it has no record.

An entry stands for a release on a Python, a backend and a device; it goes as soon as there is a record of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, get_args

import msgspec

from canishard import files
from canishard.errors import RecordError
from canishard.launch import normalise
from canishard.record.environment import Environment, Flavour, channel_key

FILE = "unmeasured.json"
"""Its name in ``matrix/``."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Unmeasured(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A release that could not be measured."""

    release: _Text
    python: _Text
    backend: _Text
    device: _Text
    reason: _Text
    """One line: the step that failed and what it said."""
    day: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
    """When this was first seen."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return what is unique."""
        return self.release, self.python, self.backend, self.device


def load(matrix: Path) -> list[Unmeasured]:
    """Read the entries, by release; none where there is no file. RecordError says what is wrong with it."""
    path = matrix / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[Unmeasured])
    except FileNotFoundError:
        return []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{FILE}: {error}"
        raise RecordError(msg) from None
    return sorted(found, key=_order)


def without_record(entries: Iterable[Unmeasured], names: Iterable[str]) -> list[Unmeasured]:
    """Return the entries of which there is no record; ``names`` are those of all records."""
    names = list(names)
    return [entry for entry in entries if not any(name.startswith(_beginnings(entry)) for name in names)]


def _beginnings(entry: Unmeasured) -> tuple[str, ...]:
    """Return how the names of an entry's records begin, whatever build and platform they are of."""
    place = {"backend": entry.backend, "device": entry.device, "python": entry.python}
    series = [
        Environment(channel=entry.release, flavour=flavour, system="", machine="", **place)
        for flavour in get_args(Flavour)
    ]
    return tuple(one.name.removesuffix("-") for one in series)


def keep(matrix: Path, release: str, python: str, arguments: Sequence[str], reason: str) -> None:
    """Take in what became of a release's run; ``reason`` is empty where it was measured.

    ``arguments`` are what its pytest was handed: they name the backend and the device. A reason that is known
    already leaves the file as it is, whatever day it is.
    """
    said = {
        name: word.partition("=")[2]
        for word in arguments
        for name in ("backend", "device")
        if word.startswith(f"--{name}=")
    }
    entries = {entry.key: entry for entry in load(matrix)}
    new = Unmeasured(
        release=release,
        python=python,
        backend=said.get("backend", "gloo"),
        device=said.get("device", "cpu"),
        reason=normalise.message(reason) or "measured",
        day=datetime.now(timezone.utc).date().isoformat(),
    )
    old = entries.pop(new.key, None)
    if reason:
        entries[new.key] = old if old and old.reason == new.reason else new
    names = [path.stem for path in (matrix / "results").glob("*.json")]
    _save(without_record(entries.values(), names), matrix / FILE)


def _save(entries: Sequence[Unmeasured], path: Path) -> None:
    """Write the entries, one a line, where that changes anything; no file is kept for none."""
    lines = [
        json.dumps(msgspec.to_builtins(entry), ensure_ascii=False) for entry in sorted(entries, key=_order)
    ]
    content = ("[\n" + ",\n".join(lines) + "\n]\n").encode()
    if not entries:
        path.unlink(missing_ok=True)
    elif not path.exists() or path.read_bytes() != content:
        files.replace(path, content)


def _order(entry: Unmeasured) -> tuple[object, ...]:
    return channel_key(entry.release), entry.key
