"""The digest of what decides a case's meaning: the source of its check, and what that uses of ours.

Works on source text alone: the function, every name of its own module that it reaches, and the whole of
``canishard.check``. Comments, blank lines and docstrings do not count, so that wording a title anew does not
measure anything again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import canishard
from canishard.catalogue import sources

SHARED = Path(canishard.__file__).with_name("check.py")
"""The one module of ours that a check uses."""


@functools.cache
def _shared_code() -> str:
    source = sources.read(SHARED)
    return sources.code(source, 1, len(source.text.splitlines()))


def digest(path: Path, function: str, extra: Iterable[str] = ()) -> str:
    """Return 16 hex digits for a check's function in a source file; ``extra`` texts count too."""
    source = sources.read(path)
    reached = sources.reached(source, [function])
    parts = [sources.code(source, statement.first, statement.last) for statement in reached]
    text = "\0".join([_shared_code(), *parts, *extra])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
