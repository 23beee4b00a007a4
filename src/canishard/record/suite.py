"""Which canishard measured, and which of its files decide what a cell says.

What else changes, a page of the site or a comment, is no reason to measure anything again, nor to doubt a record.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from pathlib import Path

import msgspec

from canishard import __version__, files
from canishard.errors import ConfigurationError

DECIDING = (
    "src/canishard/check.py",
    "src/canishard/checks",
    "src/canishard/catalogue",
    "src/canishard/launch",
    "src/canishard/record",
    "src/canishard/session",
    "src/canishard/files.py",
    "src/canishard/pytest_plugin.py",
    "matrix/refusals.toml",
)
"""Files and folders of a checkout on which it depends what a case is, how it is run and judged, and what is kept."""

_DIRTY = "-dirty"
_GIT_S = 10.0


class Suite(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which canishard measured."""

    version: str
    commit: str
    """Empty where it is not known; it ends in ``-dirty`` where a file that decides was not committed as it was."""

    @property
    def is_dirty(self) -> bool:
        """Tell whether nobody can look up what measured."""
        return self.commit.endswith(_DIRTY)


def current() -> Suite:
    """Return which canishard this is; the commit is empty outside a checkout."""
    try:
        root = files.checkout()
    except ConfigurationError:
        return Suite(version=__version__, commit="")
    commit = _git(root, "describe", "--always", "--abbrev=12")
    return Suite(version=__version__, commit=f"{commit}{_DIRTY if commit and is_dirty(root) else ''}")


def is_dirty(root: Path) -> bool:
    """Tell whether a file of a checkout that decides differs from its commit, or is not committed at all."""
    return bool(_git(root, "status", "--porcelain", "--", *DECIDING))


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def digest(root: Path) -> str:
    """Return a digest of what the files that decide say: code and tables, not comments, docstrings and layout."""
    parts = [f"{path.relative_to(root).as_posix()}\0{_meaning(path)}" for path in _files(root)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _files(root: Path) -> list[Path]:
    places = [root / name for name in DECIDING]
    found = {path for place in places if place.is_dir() for path in place.rglob("*.py")}
    return sorted(found | {place for place in places if place.is_file()})


def _meaning(path: Path) -> str:
    if path.suffix != ".py":
        return repr(files.read_toml(path))
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # A lambda's is an expression.
            node.body = [child for child in body if not _is_text(child)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    """Tell whether a statement is a docstring, or another text that nothing uses."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
