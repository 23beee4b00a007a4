"""The generated files: written by ``nox -s report``, and checked for staleness.

What is generated depends on the records, ``matrix/*.toml``, the checks'
sources and the code alone: no clock, no order of hashes, no absolute path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canishard import catalogue, files, releases
from canishard import record as record_files
from canishard.answers import dataset
from canishard.errors import ConfigurationError, StaleReportError
from canishard.facts import claims, support
from canishard.facts import quirks as quirks_file
from canishard.facts.steadiness import Steadiness
from canishard.record import Record
from canishard.report import badges
from canishard.report.excerpt import excerpt, filled
from canishard.report.markdown import render

__all__ = ["Nightly", "check", "excerpt", "outputs", "render", "write"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Nightly:
    """A nightly column."""

    record: Record
    """The confirmed one."""
    stale: str
    """The day since which it is as it is, where the last night gave no verdict; else empty."""


OWNED = (Path("reports/site"), Path("reports/badges"))
"""Folders that hold generated files alone: what is no longer generated is removed."""

SHOWN = 5
"""How many stale files a message names."""


def outputs(
    root: Path, nightly: Sequence[Nightly] = (), steadiness: Steadiness | None = None
) -> dict[Path, bytes]:
    """Return every generated file of a checkout, by its path in it, from the records that lie there.

    ``nightly`` are columns beside them, which no record of the checkout holds: not for what is committed.
    """
    matrix, reports = root / "matrix", Path("reports")
    records = [*record_files.load_all(matrix / "results"), *(column.record for column in nightly)]
    rows = releases.load(matrix / "releases.toml")
    quirks = quirks_file.load(matrix / "quirks.toml")
    entries = catalogue.load()
    versions = [row.version for row in rows]
    found = {reports / "COMPATIBILITY.md": render(records, versions, quirks).encode()}
    readme = root / "README.md"
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        found[Path("README.md")] = filled(text, excerpt(records, quirks)).encode()
    found |= {Path("matrix") / name: schema for name, schema in record_files.schemas().items()}
    built = dataset.build(records, versions, quirks, entries)
    generated = {**dataset.outputs(built), **badges.outputs(built)}
    found |= {reports / name: content for name, content in generated.items()}
    pages = _site(
        records=records,
        releases=rows,
        quirks=quirks,
        catalogue=entries,
        claims=claims.load(matrix / "claims.toml"),
        supports=support.support(records, versions),
        steadiness=steadiness,
        stale={column.record.name: column.stale for column in nightly if column.stale},
    )
    # The data set and the badges lie in the site too, so that it is whole wherever it is published.
    return found | {reports / "site" / name: content for name, content in {**pages, **generated}.items()}


def _site(**values: Any) -> dict[str, bytes]:
    """Return the site's files; its template engine is an extra, which whoever only runs the checks does not need."""
    try:
        from canishard.report import site  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        if error.name != "jinja2":
            raise
        msg = "the report needs Jinja: pip install 'canishard[report]'"
        raise ConfigurationError(msg) from None
    return site.files(site.Site(**values))


def write(root: Path, nightly: Sequence[Nightly] = (), steadiness: Steadiness | None = None) -> list[Path]:
    """Write the generated files that are not up to date, remove what is no longer made; return their paths."""
    found = outputs(root, nightly, steadiness)
    stale = _stale(root, found)
    for path in stale:
        if path in found:
            files.replace(root / path, found[path])
        else:
            (root / path).unlink()
    return stale


def check(root: Path) -> None:
    """Raise StaleReportError when a generated file is not what the records give."""
    stale = _stale(root, outputs(root))
    if stale:
        few = [path.as_posix() for path in stale[:SHOWN]]
        more = f" and {len(stale) - SHOWN} more" if len(stale) > SHOWN else ""
        msg = f"not what matrix/ gives: {', '.join(few)}{more}; run `nox -s report` and commit the result"
        raise StaleReportError(msg)


def _stale(root: Path, found: Mapping[Path, bytes]) -> list[Path]:
    there = [
        path.relative_to(root) for folder in OWNED for path in (root / folder).rglob("*") if path.is_file()
    ]
    left = sorted(path for path in there if path not in found)
    return [path for path, content in found.items() if _content(root / path) != content] + left


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
