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
from canishard.releases import INSTALLED, Release

PRESENTING = (
    "campaign.py",
    "child.py",
    "cli.py",
    "guard.py",
    "install.py",
    "quirks.py",
    "repeat.py",
    "report",
    "runs.py",
    "stamps.py",
    "support.py",
)
"""Parts of the package that no result depends on; whatever else changes is a reason to run again."""


class Stamps:
    """The summaries kept for one selection of cases and one source of torch."""

    def __init__(self, root: Path, selection: Sequence[str]) -> None:
        """Look at the sources once; ``selection`` is what else a run's results depend on."""
        self.root = root
        self.folder = root / ".canishard" / "stamps"
        self.selection = tuple(selection)
        package = root / "src" / "canishard"
        presenting = {package / name for name in PRESENTING}
        sources = [path for path in package.rglob("*.py") if not presenting & {path, *path.parents}]
        refusals = root / "matrix" / "refusals.toml"
        self.sources = digest([*sorted(sources), *([refusals] if refusals.exists() else [])])

    def summary(self, release: Release) -> dict[str, Any]:
        """Return the summary that still holds for a release, an empty one where it has to be run."""
        stamp = read(self._path(release))
        kept = stamp.get("summary", {})
        holds = stamp.get("decides") == self._decides(release) and stamp.get("record") == self._record_digest(
            kept
        )
        return dict(kept) if kept and holds else {}

    def keep(self, release: Release, summary: Mapping[str, Any]) -> None:
        """Keep the summary of a complete run; one that wrote no record is not complete."""
        record = self._record_digest(summary)
        # What "installed" stands for can change without a trace.
        if record and release.version != INSTALLED:
            decides = self._decides(release)
            write(self._path(release), {"decides": decides, "record": record, "summary": dict(summary)})

    def forget(self, release: Release) -> None:
        """Drop what is kept for a release."""
        self._path(release).unlink(missing_ok=True)

    def _path(self, release: Release) -> Path:
        return self.folder / f"{release.session}-{digest([], *self.selection)[:12]}.json"

    def _decides(self, release: Release) -> str:
        """Return a digest of what a release's results depend on, bar the torch of that version itself."""
        return digest([release.wheel] if release.wheel else [], self.sources, repr(release), *self.selection)

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
