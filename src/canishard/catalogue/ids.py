"""Case ids: how they are built and taken apart, patterns over them, and their order of reading.

An id is ``family.subject[param=value,...]``, with ``+workaround`` at its end. Imports nothing of canishard.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

SAFE = r"^[^\s`|<>\\]+$"
"""What every id matches: no blank, and nothing that ends a Markdown code span or a table's cell."""


def build(family: str, subject: str, params: Mapping[str, object], workaround: str = "") -> str:
    """Return the id of a row."""
    bracket = ",".join(f"{name}={value}" for name, value in params.items())
    return (
        f"{family}.{subject}" + (f"[{bracket}]" if bracket else "") + (f"+{workaround}" if workaround else "")
    )


def family(case_id: str) -> str:
    """Return the part before the first point."""
    return case_id.partition(".")[0]


def name(case_id: str) -> str:
    """Return ``family.subject``, which all rows of a check have in common."""
    return re.split(r"[\[+]", case_id, maxsplit=1)[0]


def workaround(case_id: str) -> str:
    """Return what stands after the ``+``; empty where there is none."""
    return re.sub(r"\[.*\]", "", case_id, flags=re.DOTALL).partition("+")[2]


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"([*?])", pattern)
    return re.compile("".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in parts), re.DOTALL)


def matches(pattern: str, case_id: str) -> bool:
    """Tell whether an id is matched as a whole, where ``*`` is any text and ``?`` any one character.

    Brackets stand for themselves, since ids hold them: this is not ``fnmatch``.
    """
    return _compiled(pattern).fullmatch(case_id) is not None


def matching(patterns: Iterable[str], case_ids: Iterable[str]) -> list[str]:
    """Return the ids that at least one pattern matches, in their own order."""
    patterns = list(patterns)
    return [case_id for case_id in case_ids if any(matches(pattern, case_id) for pattern in patterns)]


def slug(row_id: str) -> str:
    """Return a file's name for a row, the same for the same row, and another for every other one.

    Letters, digits, point and underscore stay, the signs of an id become others that need no escape in a link, and
    all else its code: ``fsdp2.train[optimizer=sgd]+force_sum`` is ``fsdp2.train-optimizer~sgd-+force_sum``.
    """
    signs = {"[": "-", "]": "-", "=": "~", ",": "~~"}
    return re.sub(
        r"[^A-Za-z0-9._+]", lambda found: signs.get(found[0]) or f"~{ord(found[0]):02x}", row_id
    ).rstrip("-")
