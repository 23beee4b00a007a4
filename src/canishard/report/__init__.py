"""The generated files: written by ``nox -s report``; those that are committed are checked for staleness.

What is generated depends on the records, ``matrix/*.toml``, the checks' sources and the code alone: no clock, no
order of hashes, no absolute path. Committed is what is read where the repository is; the site is built anew
wherever it is wanted, into a folder that git ignores.
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
from canishard.facts.quirks import Quirk
from canishard.facts.steadiness import Steadiness
from canishard.record import Record, unmeasured
from canishard.record.unmeasured import Unmeasured
from canishard.report import badges
from canishard.report.excerpt import excerpt, filled
from canishard.report.markdown import render

__all__ = ["Nightly", "check", "committed", "excerpt", "render", "site_files", "write", "write_site"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Nightly:
    """A nightly column."""

    record: Record
    """The confirmed one."""
    stale: str
    """The day since which it is as it is, where the last night gave no verdict; else empty."""


SITE, BADGES = Path("reports/site"), Path("reports/badges")
"""Folders that hold generated files alone: what is no longer generated is removed."""

SHOWN = 5
"""How many stale files a message names."""


def committed(root: Path) -> dict[Path, bytes]:
    """Return every generated file that is committed, by its path in a checkout, from the records that lie there."""
    reports = Path("reports")
    records, versions, quirks = _records(root), _versions(root), _quirks(root)
    found = {
        reports / "COMPATIBILITY.md": render(records, versions, quirks, _unmeasured(root, records)).encode()
    }
    readme = root / "README.md"
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        found[Path("README.md")] = filled(text, excerpt(records, quirks)).encode()
    found |= {Path("matrix") / name: schema for name, schema in record_files.schemas().items()}
    built = dataset.build(records, versions, quirks, catalogue.load())
    data = {name: content for name, content in dataset.outputs(built).items() if name != dataset.CSV_FILE}
    return found | {reports / name: content for name, content in {**data, **badges.outputs(built)}.items()}


def site_files(
    root: Path, nightly: Sequence[Nightly] = (), steadiness: Steadiness | None = None
) -> dict[Path, bytes]:
    """Return the site's files by their path in a checkout: the pages, and the data set, so that it is whole.

    ``nightly`` are columns beside the records that lie there.
    """
    records = [*_records(root), *(column.record for column in nightly)]
    versions, quirks, entries = _versions(root), _quirks(root), catalogue.load()
    pages = _pages(
        records=records,
        releases=releases.load(root / "matrix" / "releases.toml"),
        quirks=quirks,
        catalogue=entries,
        claims=claims.load(root / "matrix" / "claims.toml"),
        supports=support.support(records, versions),
        unmeasured=_unmeasured(root, records),
        steadiness=steadiness,
        stale={column.record.name: column.stale for column in nightly if column.stale},
    )
    data = dataset.outputs(dataset.build(records, versions, quirks, entries))
    return {SITE / name: content for name, content in {**pages, **data}.items()}


def _records(root: Path) -> list[Record]:
    return record_files.load_all(root / "matrix" / "results")


def _versions(root: Path) -> list[str]:
    return [row.version for row in releases.load(root / "matrix" / "releases.toml")]


def _unmeasured(root: Path, records: Sequence[Record]) -> list[Unmeasured]:
    return unmeasured.without_record(unmeasured.load(root / "matrix"), [record.name for record in records])


def _quirks(root: Path) -> list[Quirk]:
    return quirks_file.load(root / "matrix" / "quirks.toml")


def _pages(**values: Any) -> dict[str, bytes]:
    """Return the site's files; its template engine is an extra, which whoever only runs the checks does not need."""
    try:
        from canishard.report import site  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        if error.name != "jinja2":
            raise
        msg = "the site needs Jinja: pip install 'canishard[report]'"
        raise ConfigurationError(msg) from None
    return site.files(site.Site(**values))


def write(root: Path) -> list[Path]:
    """Write the committed files that are not up to date, remove what is no longer made; return their paths."""
    return _write(root, committed(root), BADGES)


def write_site(
    root: Path, nightly: Sequence[Nightly] = (), steadiness: Steadiness | None = None
) -> list[Path]:
    """Write the site's files likewise."""
    return _write(root, site_files(root, nightly, steadiness), SITE)


def check(root: Path) -> None:
    """Raise StaleReportError when a committed file is not what the records give."""
    stale = _stale(root, committed(root), BADGES)
    if stale:
        few = [path.as_posix() for path in stale[:SHOWN]]
        more = f" and {len(stale) - SHOWN} more" if len(stale) > SHOWN else ""
        msg = f"not what matrix/ gives: {', '.join(few)}{more}; run `nox -s report` and commit the result"
        raise StaleReportError(msg)


def _write(root: Path, found: Mapping[Path, bytes], owned: Path) -> list[Path]:
    stale = _stale(root, found, owned)
    for path in stale:
        if path in found:
            files.replace(root / path, found[path])
        else:
            (root / path).unlink()
    return stale


def _stale(root: Path, found: Mapping[Path, bytes], owned: Path) -> list[Path]:
    there = [path.relative_to(root) for path in (root / owned).rglob("*") if path.is_file()]
    left = sorted(path for path in there if path not in found)
    return [path for path, content in found.items() if _content(root / path) != content] + left


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
