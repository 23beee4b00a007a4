"""The torch releases: reads ``matrix/releases.toml`` strictly, and selects among its rows.

Runs in nox's own process too, so it imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from canishard.errors import ConfigurationError
from canishard.files import entries, matrix_dir, raise_faults, read_toml, unknown_keys

INSTALLED = "installed"
"""What selects the torch that the current environment has."""

OLDEST_PYTHON = Version("3.10")
"""What canishard itself needs."""

SUPPORTED_YEARS = 2
"""For how long a release counts as supported: the window that SPEC 0 gives for dependencies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """A torch to measure: a row of the file, or what ``--torch`` named beside it."""

    version: str
    """The version, or ``installed``."""
    python: str = ""
    also_python: tuple[str, ...] = ()
    """Further Pythons that its checks run on, to see that the column does not depend on it."""
    is_again: bool = False
    """Whether this is a row on one of its further Pythons."""
    pins: tuple[str, ...] = ()
    ci: bool = False
    wheel: Path | None = None
    """The file to install, where it is not the version from an index."""
    stable: bool = True
    """Whether it is a row of the file: only then can its record be a baseline."""
    released: str = ""
    """The day of its first upload, ``2025-08-06``; empty where it is not known."""

    @property
    def minor(self) -> tuple[int, ...]:
        """Return the first two numbers of the version."""
        return Version(self.version).release[:2]

    @property
    def interpreter(self) -> str:
        """Return how the names of records and wheels say its Python: ``cp311``; empty where it is not known."""
        return f"cp{self.python.replace('.', '')}" if self.python else ""

    @property
    def session(self) -> str:
        """Return what is unique to a release on a Python: ``2.8.0``, or ``2.8.0-py3.12`` on a further one."""
        return f"{self.version}-py{self.python}" if self.is_again else self.version


class _Row(msgspec.Struct, kw_only=True, frozen=True):
    """One ``[[release]]`` as it stands in the file."""

    version: str
    python: str
    also_python: list[str] = []
    pins: list[str] = []
    ci: bool = False
    released: str = ""


class _Python(msgspec.Struct, kw_only=True, frozen=True):
    """One ``[[python]]`` as it stands in the file."""

    version: str
    why: Annotated[str, msgspec.Meta(min_length=1)]


def load(path: Path | None = None) -> list[Release]:
    """Read the rows, oldest first.

    Raises one ConfigurationError with every fault of the file, each with its place and what is allowed.
    """
    path = path or matrix_dir() / "releases.toml"
    raw = read_toml(path)
    faults = unknown_keys(raw, ["pins", "python", "release"])
    common = raw.get("pins", [])
    faults += (
        _pin_faults(common, "pins") if isinstance(common, list) else ["pins: expected a list of requirements"]
    )
    pythons = entries(raw, "python", _Python, faults)
    rows = entries(raw, "release", _Row, faults)
    for place, row in rows.items():
        faults += _row_faults(row, place)
    faults = faults or _python_faults(pythons, rows)
    raise_faults(path, faults)
    releases = [
        Release(
            version=row.version,
            python=row.python,
            also_python=tuple(row.also_python),
            pins=(*common, *row.pins),
            ci=row.ci,
            released=row.released,
        )
        for row in rows.values()
    ]
    raise_faults(path, _order_faults(releases))
    return releases


def _row_faults(row: _Row, place: str) -> list[str]:
    """Return what the types alone do not say of one row."""
    faults = []
    if not _is_final(row.version, numbers=3):
        faults.append(f'{place}.version: expected a final version of three numbers, got "{row.version}"')
    named = {f"{place}.python": row.python}
    named |= {f"{place}.also_python[{number}]": python for number, python in enumerate(row.also_python)}
    for where, python in named.items():
        if not _is_final(python, numbers=2) or Version(python) < OLDEST_PYTHON:
            expected = f'a version such as "3.11", {OLDEST_PYTHON} or later'
            faults.append(f'{where}: expected {expected}, got "{python}"')
    if len({*named.values()}) < len(named):
        faults.append(f"{place}.also_python: expected further Pythons than {row.python}, each once")
    if row.released and not _is_day(row.released):
        faults.append(f'{place}.released: expected a day such as "2025-08-06", got "{row.released}"')
    return faults + _pin_faults(row.pins, f"{place}.pins")


def _python_faults(pythons: Mapping[str, _Python], rows: Mapping[str, _Row]) -> list[str]:
    """Return a fault for a Python that nobody says why of, and for a reason that no row needs."""
    used = {python: where for where, row in rows.items() for python in (row.python, *row.also_python)}
    told = {entry.version: where for where, entry in pythons.items()}
    missing = sorted(used.keys() - told.keys())
    faults = [f"{used[one]}: no [[python]] says why checks run on Python {one}" for one in missing]
    return faults + [
        f"{told[one]}.version: no row runs on {one}" for one in sorted(told.keys() - used.keys())
    ]


def _pin_faults(pins: Sequence[object], place: str) -> list[str]:
    return [
        f'{place}[{number}]: expected a requirement other than torch, such as "setuptools", got "{pin}"'
        for number, pin in enumerate(pins)
        if not isinstance(pin, str) or not _is_pin(pin)
    ]


def is_specifier(text: str) -> bool:
    """Tell whether a text says by a comparison which versions are meant, such as ``>=2.6``."""
    return text[:1] in {"<", ">", "=", "!", "~"}


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _is_final(text: str, *, numbers: int | None = None) -> bool:
    """Tell whether a text is digits and dots only, with so many numbers where that is said."""
    parts = text.split(".")
    return all(part.isascii() and part.isdigit() for part in parts) and numbers in {None, len(parts)}


def _is_day(text: str) -> bool:
    """Tell whether a text is a day as ISO 8601 writes it with hyphens; Python 3.11 reads other forms too."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_pin(text: str) -> bool:
    try:
        return canonicalize_name(Requirement(text).name) != "torch"
    except InvalidRequirement:
        return False


def _order_faults(releases: Sequence[Release]) -> list[str]:
    """Return what is wrong between rows that are right by themselves."""
    faults = [
        f"release[{index}].version: expected a version later than the {before.version} of the row above, "
        f'got "{after.version}"'
        for index, (before, after) in enumerate(pairwise(releases), start=1)
        if Version(before.version) >= Version(after.version)
    ]
    marked = [release.version for release in releases if release.ci]
    if len(marked) != 1:
        faults.append(
            f"release: expected ci = true on exactly one row, got it on {' and '.join(marked) or 'none'}"
        )
    return faults


def ci_release(releases: Sequence[Release]) -> Release:
    """Return the row that the tests and ``.ci/run`` use."""
    return next(release for release in releases if release.ci)


def on_each_python(releases: Iterable[Release]) -> list[Release]:
    """Return each release on its own Python, followed by itself on each further one."""
    found = []
    for release in releases:
        again = replace(release, is_again=True, also_python=(), ci=False)
        found += [release, *(replace(again, python=python) for python in release.also_python)]
    return found


def newest_patches(releases: Sequence[Release]) -> list[Release]:
    """Keep the newest patch of each minor release."""
    return list({release.minor: release for release in releases}.values())


def supported(rows: Sequence[Release]) -> list[Release]:
    """Return the rows released within two years before the latest of them, that day two years ago included.

    No clock: the answer changes with the file only. A row without a day is not among them.
    """
    latest = max((row.released for row in rows), default="")
    if not latest:
        return []
    first = f"{int(latest[:4]) - SUPPORTED_YEARS:04}{latest[4:]}"  # A text: there need not be a 29 February.
    return [row for row in rows if row.released >= first]


def tags(releases: Sequence[Release], release: Release) -> list[str]:
    """Return the words that select a release's session: ``nox -t newest-patches``, its further Pythons included."""
    newest = {row.version for row in newest_patches(releases)}
    found = {
        "ci-checks": release.ci,
        "newest-patches": release.stable and release.version in newest,
        "all-patches": release.stable,
    }
    return [tag for tag, holds in found.items() if holds]


def select(
    releases: Sequence[Release],
    torch: Sequence[str] = (),
    *,
    all_patches: bool = False,
    option: str = "--torch",
) -> list[Release]:
    """Return what an option such as ``--torch`` asks for, rows in the file's order, then the others; each once.

    Nothing said means every row. Of these, and of what a specifier such as ``>=2.13`` matches, the newest
    patch of each minor is taken, all patches if asked. An exact version, a pre-release, a wheel's path and
    ``installed`` are taken as they are.
    """
    chosen = []
    for wanted in torch:
        try:
            chosen += _select_one(releases, wanted, all_patches)
        except ConfigurationError as error:
            msg = f"{option} {wanted}: {error}"
            raise ConfigurationError(msg) from None
    if not torch:
        chosen = list(releases) if all_patches else newest_patches(releases)
    rows = [release for release in releases if release in chosen]
    others = [release for release in chosen if not release.stable]
    return rows + list(dict.fromkeys(others))


def _select_one(releases: Sequence[Release], wanted: str, all_patches: bool) -> list[Release]:
    if wanted == INSTALLED:
        return [Release(version=INSTALLED, stable=False)]
    if wanted.endswith(".whl"):
        return [_from_wheel(Path(wanted))]
    if is_specifier(wanted):
        return _matching(releases, wanted, all_patches)
    exact = [release for release in releases if release.version == wanted]
    if exact:
        return exact
    if _is_version(wanted) and not _is_final(wanted):
        return [Release(version=wanted, python=releases[-1].python, stable=False)]
    msg = f"unknown release. {_known(releases)}"
    raise ConfigurationError(msg)


def _matching(releases: Sequence[Release], wanted: str, all_patches: bool) -> list[Release]:
    try:
        specifier = SpecifierSet(wanted)
    except InvalidSpecifier:
        msg = f"expected a specifier such as '>={releases[-1].version}'. {_known(releases)}"
        raise ConfigurationError(msg) from None
    matching = [release for release in releases if specifier.contains(release.version)]
    if not matching:
        msg = f"matches no release. {_known(releases)}"
        raise ConfigurationError(msg)
    return matching if all_patches else newest_patches(matching)


def _from_wheel(path: Path) -> Release:
    """Describe a wheel of torch by its file name."""
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except (InvalidWheelFilename, InvalidVersion):
        name, version, tags = "", Version("0"), frozenset()  # type: ignore[assignment] # "" is no wheel's name.
    pythons = sorted(tag.interpreter for tag in tags if name == "torch" and tag.interpreter.startswith("cp3"))
    if not pythons:
        msg = "expected a wheel of torch for CPython, torch-<version>-cp3<minor>-<abi>-<platform>.whl"
        raise ConfigurationError(msg)
    if not path.is_file():
        msg = "no such file"
        raise ConfigurationError(msg)
    python = f"3.{pythons[0].removeprefix('cp3')}"
    return Release(version=str(version), python=python, wheel=path.resolve(), stable=False)


def _known(releases: Sequence[Release]) -> str:
    versions = ", ".join(release.version for release in releases)
    return f"Known: {versions}; also a specifier, a pre-release, the path of a wheel, or `{INSTALLED}`"
