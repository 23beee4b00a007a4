"""torch's nightly builds: which an index has, of which day, and how one of them is asked for.

Runs in nox's own process, so it imports no torch.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

from packaging import tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from canishard import releases
from canishard.errors import ConfigurationError, InfraError
from canishard.walk.install import INDEX_VARIABLE, TORCH_VARIABLE

NIGHTLY_INDEX_VARIABLE = "CANISHARD_NIGHTLY_INDEX"
"""The environment variable that names the index of nightly builds."""

NIGHTLY_INDEX = "https://download.pytorch.org/whl/nightly/cpu"
ANSWER_S = 30.0


def index(environ: Mapping[str, str]) -> str:
    """Return the address of the index of nightly builds."""
    return environ.get(NIGHTLY_INDEX_VARIABLE, "").strip() or NIGHTLY_INDEX


def is_date(text: str) -> bool:
    """Tell whether a text names a day as ``2026-11-30``."""
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None


def date_of(version: str) -> str:
    """Return the day of a nightly's version: ``2026-11-30`` of ``2.16.0.dev20261130``; empty for any other."""
    try:
        dev = str(Version(version).dev or "")
    except InvalidVersion:
        return ""
    return f"{dev[:4]}-{dev[4:6]}-{dev[6:]}" if re.fullmatch(r"20\d{6}", dev) else ""


class _Links(HTMLParser):
    """The file names that a page of an index links to (PEP 503)."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an anchor's target."""
        target = dict(attrs).get("href") if tag == "a" else None
        if target:
            self.names.append(unquote(urlsplit(target).path.rpartition("/")[2]))


def listed(environ: Mapping[str, str]) -> list[str]:
    """Return the versions of torch that the index of nightly builds has for this machine, oldest first, each once.

    A wheel for another platform, or for another Python than a nightly is measured on, is no build of the night.
    Raises InfraError in one line where the index does not answer.
    """
    address = f"{index(environ).rstrip('/')}/torch/"
    try:
        # The address is the user's own, or a constant.
        with urllib.request.urlopen(address, timeout=ANSWER_S) as answer:  # noqa: S310
            page = answer.read().decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        msg = f"{address}: no list of nightly builds: {reason}; {NIGHTLY_INDEX_VARIABLE} names another index"
        raise InfraError(msg) from None
    links = _Links()
    links.feed(page)
    fitting = fitting_tags(releases.load()[-1].python)
    found = {version for name in links.names if (version := _version(name, fitting)) is not None}
    return [str(version) for version in sorted(found)]


def fitting_tags(python: str, platforms: Sequence[str] | None = None) -> frozenset[tags.Tag]:
    """Return the tags of the wheels that a CPython such as ``3.11`` can install, by default on this machine."""
    major, minor = map(int, python.split("."))
    return frozenset(tags.cpython_tags((major, minor), abis=[f"cp{major}{minor}"], platforms=platforms))


def _version(file_name: str, fitting: frozenset[tags.Tag]) -> Version | None:
    """Return the version of a fitting wheel of torch without its local part, None for every other file."""
    try:
        name, version, _, its_tags = parse_wheel_filename(file_name)
    except InvalidWheelFilename:
        return None
    is_wanted = name == "torch" and version.is_devrelease and fitting & its_tags
    return Version(version.public) if is_wanted else None


def newest(versions: Sequence[str]) -> str:
    """Return the build of the latest day; of that day's, the one of the newest line."""
    return max(versions, key=_age)


def _age(version: str) -> tuple[str, Version]:
    """Return what sorts nightlies by age: on the day that a release branch is cut, two lines have a build."""
    return date_of(version), Version(version)


def between(first: str, last: str, versions: Sequence[str]) -> list[str]:
    """Return a build a day from one day to another, oldest first; both days must have one.

    Of two builds of one day, the one of the newer line.
    """
    days = {date_of(version): version for version in sorted(versions, key=_age)}
    for day in (first, last):
        if day not in days:
            there = sorted(filter(None, days))
            known = f"{there[0]} to {there[-1]}" if there else "none"
            msg = f"{day}: no nightly build of that day; the index has {known}"
            raise ConfigurationError(msg)
    return [version for day, version in days.items() if first <= day <= last]


def environment(version: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a nox session installs a nightly; none for a release."""
    return {TORCH_VARIABLE: version, INDEX_VARIABLE: index(environ)} if date_of(version) else {}
