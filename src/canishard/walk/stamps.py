"""What this machine knows of earlier campaigns: summaries that still hold, and how long releases took.

Kept under ``.canishard/``. A release is not run again, and so not installed again, where nothing that
decides its results has changed; the journal of cases below it is finer, but needs torch to be installed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from canishard.files import replace
from canishard.launch import recorded_environment
from canishard.record import suite
from canishard.record.conditions import NEVER_REUSED
from canishard.releases import INSTALLED, Release
from canishard.walk import install

UNREPEATABLE = ("--backend-module", "--checks")
"""Options by which code is measured with that may change without a trace."""


class Asked:
    """What of the conditions of a measurement is known before torch is installed, for one selection of cases.

    What is known only then, the build's commit and the packages beside it, a stamp takes from the record: it holds
    for this very one.
    """

    def __init__(self, root: Path, options: Sequence[str], environ: Mapping[str, str]) -> None:
        """Look at the checkout once; ``environ`` is what the runs are started with."""
        self.options = tuple(options)
        self._common = {
            "options": self.options,
            "sources": install.sources(environ),
            "variables": recorded_environment(environ),
            "devices": install.gpus(),
            "suite": suite.digest(root),
            "dirty": suite.is_dirty(root),
        }

    def digest(self, release: Release) -> str:
        """Return a digest of what a release's cells depend on, bar the torch of that version itself."""
        own = [release.version, release.python, *release.pins]
        wheel = [release.wheel] if release.wheel else []
        return digest(wheel, json.dumps({**self._common, "release": own}, sort_keys=True))

    @property
    def is_repeatable(self) -> bool:
        """Tell whether the same run gives the same: all code that is measured with is known."""
        return not any(option.startswith(UNREPEATABLE) for option in self.options)


class Stamps:
    """The summaries kept for one selection of cases."""

    def __init__(self, root: Path, asked: Asked) -> None:
        """``asked`` is what runs depend on."""
        self.root = root
        self.folder = root / ".canishard" / "stamps"
        self.asked = asked

    def summary(self, release: Release) -> dict[str, Any]:
        """Return the summary that still holds for a release, an empty one where it has to be run."""
        stamp = read(self._path(release))
        kept = stamp.get("summary", {})
        holds = (
            self._settles(release, kept)
            and stamp.get("decides") == self.asked.digest(release)
            and stamp.get("record") == self._record_digest(kept)
        )
        return dict(kept) if holds else {}

    def keep(self, release: Release, summary: Mapping[str, Any]) -> None:
        """Keep the summary of a complete run; one that wrote no record is not complete."""
        record = self._record_digest(summary)
        if record and self._settles(release, summary):
            stamp = {"decides": self.asked.digest(release), "record": record, "summary": dict(summary)}
            write(self._path(release), stamp)

    def _settles(self, release: Release, summary: Mapping[str, Any]) -> bool:
        """Tell whether nothing of a run would be measured again by the rules of the journal."""
        # What "installed" stands for can change without a trace.
        if not summary or release.version == INSTALLED or not self.asked.is_repeatable:
            return False
        return not any(summary["counts"].get(status.value) for status in NEVER_REUSED)

    def forget(self, release: Release) -> None:
        """Drop what is kept for a release."""
        self._path(release).unlink(missing_ok=True)

    def _path(self, release: Release) -> Path:
        return self.folder / f"{release.session}-{digest([], *self.asked.options)[:12]}.json"

    def _record_digest(self, summary: Mapping[str, Any]) -> str:
        """Return a digest of the record that a run wrote; an empty text where it is gone."""
        record = self.root / str(summary.get("record") or "")
        evidence = record.with_name(f"{record.stem}.evidence.json")
        return digest([path for path in (record, evidence) if path.is_file()]) if record.is_file() else ""


class Seconds:
    """How long each release took when this machine last ran it."""

    def __init__(self, root: Path) -> None:
        """Read what is known."""
        self.path = root / ".canishard" / "seconds.json"
        self.known: dict[str, float] = read(self.path)

    def keep(self, release: str, seconds: float) -> None:
        """Note how long a release took."""
        self.known[release] = round(seconds, 1)
        write(self.path, self.known)


def digest(paths: Sequence[Path], *texts: str) -> str:
    """Return one digest of some files and texts."""
    parts = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    return hashlib.sha256("\0".join([*parts, *texts]).encode()).hexdigest()


def read(path: Path) -> dict[str, Any]:
    """Return a JSON object of ours; an empty one where there is none, or none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object."""
    replace(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())
