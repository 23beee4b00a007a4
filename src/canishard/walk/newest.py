"""Adds a row to ``matrix/releases.toml`` for each new stable release of torch: what ``nox -s new-releases`` does.

Which there are, pip says, of the index that it is set up for. The file's own text and comments stay.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from packaging.version import InvalidVersion, Version

from canishard import files, releases
from canishard.errors import CanishardError, InfraError

_ROW = re.compile(r'^\[\[release\]\]\nversion = "([^"]+)"', re.MULTILINE)


def main(arguments: Sequence[str], path: Path | None = None) -> int:
    """Add the rows, print which; return 0 or an error's code."""
    parser = argparse.ArgumentParser(
        prog="nox -s new-releases --", description="Add a row for each new stable release of torch."
    )
    parser.parse_args(arguments)
    path = path or files.matrix_dir() / "releases.toml"
    try:
        added = update(path, listed(), datetime.now(timezone.utc).strftime("%Y-%m-%d"))
    except CanishardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"added: {', '.join(added)}" if added else "no new release")
    return 0


def listed() -> list[str]:
    """Return every version of torch that the index has for this Python; InfraError where it does not answer."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        msg = f"pip index versions torch: no list of releases: {said or 'it said nothing'}"
        raise InfraError(msg)
    return [version.strip() for version in found[1].split(",")]


def update(path: Path, versions: Sequence[str], day: str) -> list[str]:
    """Write a row for each final version that the file lacks and that is later than its oldest; return these.

    ``day`` stands for the day of the first upload. The new text is read as strictly as the old one before it
    replaces it.
    """
    rows = releases.load(path)
    known = {Version(row.version) for row in rows}
    final = {version for version in map(_final, versions) if version is not None}
    new = sorted(version for version in final - known if version > min(known))
    text = path.read_text(encoding="utf-8")
    for version in new:
        text = _with_row(text, version, rows[-1].python, day)
    if new:
        draft = path.with_name(f".{path.name}.new")
        try:
            draft.write_text(text, encoding="utf-8")
            releases.load(draft)
        finally:
            draft.unlink(missing_ok=True)
        files.replace(path, text.encode())
    return [str(version) for version in new]


def _final(text: str) -> Version | None:
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    is_final = not version.is_prerelease and not version.is_postrelease and version.local is None
    return version if is_final and len(version.release) == 3 else None  # noqa: PLR2004 - major, minor, patch


def _with_row(text: str, version: Version, python: str, day: str) -> str:
    """Return the file with a row before the first later one, else at its end."""
    row = f'[[release]]\nversion = "{version}"\nreleased = "{day}"\npython = "{python}"\n'
    later = next((found for found in _ROW.finditer(text) if Version(found[1]) > version), None)
    if later is None:
        return f"{text.rstrip()}\n\n{row}"
    return f"{text[: later.start()]}{row}\n{text[later.start() :]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
