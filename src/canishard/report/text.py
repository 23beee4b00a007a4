"""Markdown that hostile text cannot break out of, and tables of it; imports nothing of canishard."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tabulate as tables

_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]+")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "<span>$</span>"}
_MARKUP = re.compile(r"[\\`*_{}\[\]#|~!&<>$]")
_ITEM = re.compile(r"^(\d*)([.)+-])(?= |$)")
"""What would begin a list at the start of a text."""

_PLAIN = re.compile(r"[\w.\-+=*?,\[\]:/() ]+")


def escape(text: str) -> str:
    r"""Return text that Markdown, HTML and GitHub's mathematics show as it is, on one line.

    Control characters, line ends and characters that turn the direction of writing become a blank.
    """
    text = " ".join(_INVISIBLE.sub(" ", text).split())
    text = _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), text)
    return _ITEM.sub(r"\1\\\2", text)


def code(text: str) -> str:
    """Return text in the typeface of code, safe in a table's cell."""
    return f"`{text}`" if _PLAIN.fullmatch(text) else f"<code>{escape(text)}</code>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    # The width of an emoji must not depend on whether wcwidth happens to be installed.
    before, tables.WIDE_CHARS_MODE = tables.WIDE_CHARS_MODE, False
    try:
        return tables.tabulate(rows, heads, tablefmt="github", disable_numparse=True, stralign="left")
    finally:
        tables.WIDE_CHARS_MODE = before
