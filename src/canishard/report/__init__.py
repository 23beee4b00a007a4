"""The generated files: written by ``nox -s report``, and checked for staleness.

May import ``record``, ``quirks``, ``data`` and ``errors``. What is generated depends on the records,
``matrix/*.toml`` and the code alone: no clock, no order of hashes, no absolute path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from canishard import data
from canishard import quirks as quirks_file
from canishard import record as record_files
from canishard.errors import StaleReportError
from canishard.report.excerpt import excerpt, filled
from canishard.report.markdown import render

__all__ = ["check", "excerpt", "outputs", "render", "write"]


def outputs(root: Path, releases: Sequence[str]) -> dict[Path, bytes]:
    """Return every generated file of a checkout, by its path in it, from the records that lie there.

    ``releases`` are all that ``matrix/releases.toml`` has, in any order.
    """
    records = record_files.load_all(root / "matrix" / "results")
    quirks = quirks_file.load(root / "matrix" / "quirks.toml")
    found = {Path("reports/COMPATIBILITY.md"): render(records, releases, quirks).encode()}
    readme = root / "README.md"
    if readme.exists():
        found[Path("README.md")] = filled(
            readme.read_text(encoding="utf-8"), excerpt(records, quirks)
        ).encode()
    for name, schema in record_files.schemas().items():
        found[Path("matrix") / name] = schema
    return found


def write(root: Path, releases: Sequence[str]) -> list[Path]:
    """Write the generated files that are not up to date; return their paths in the checkout."""
    found = outputs(root, releases)
    stale = _stale(root, found)
    for path in stale:
        data.replace(root / path, found[path])
    return stale


def check(root: Path, releases: Sequence[str]) -> None:
    """Raise StaleReportError when a generated file is not what the records give."""
    stale = _stale(root, outputs(root, releases))
    if stale:
        names = ", ".join(path.as_posix() for path in stale)
        msg = f"not what matrix/ gives: {names}; run `nox -s report` and commit the result"
        raise StaleReportError(msg)


def _stale(root: Path, found: dict[Path, bytes]) -> list[Path]:
    return [path for path, content in found.items() if _content(root / path) != content]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
