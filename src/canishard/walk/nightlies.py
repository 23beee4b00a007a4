"""torch's nightly builds: which an index has, of which day, and how one of them is asked for.

Runs in nox's own process, so it imports no torch; of ours, ``install`` and ``errors``.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

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
    """Return the versions of torch that the index of nightly builds has, oldest first, each once.

    Raises InfraError in one line where it does not answer.
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
    return [str(version) for version in sorted(set(filter(None, map(_version, links.names))))]


def _version(file_name: str) -> Version | None:
    """Return the version of a wheel of torch without its local part, None for every other file."""
    try:
        name, version, _, _ = parse_wheel_filename(file_name)
    except InvalidWheelFilename:
        return None
    return Version(version.public) if name == "torch" and version.is_devrelease else None


def between(first: str, last: str, versions: Sequence[str]) -> list[str]:
    """Return the versions from one day to another, of which both must be there."""
    days = {date_of(version) for version in versions}
    for day in (first, last):
        if day not in days:
            there = sorted(filter(None, days))
            known = f"{there[0]} to {there[-1]}" if there else "none"
            msg = f"{day}: no nightly build of that day; the index has {known}"
            raise ConfigurationError(msg)
    return [version for version in versions if first <= date_of(version) <= last]


def environment(version: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a nox session installs a nightly; none for a release."""
    return {TORCH_VARIABLE: version, INDEX_VARIABLE: index(environ)} if date_of(version) else {}
