"""A file's statements: their text is what stands in the file, and what they bind is found without running them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from canishard.catalogue import sources

SOURCE = '''"""Checks."""
import a.b
from c import (
    d,
    e as f,
)

SIZE, OTHER = 3, 4
TABLE: dict = {"x": lambda value: helper(value)}
"""A docstring."""


@d(TABLE)
def first():
    """First."""
    # A comment.

    return a.b


def helper(value):
    return value + SIZE


class Unused:
    pass
'''


@pytest.fixture
def source(tmp_path: Path) -> sources.Source:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    return sources.read(path)


def test_a_statement_s_text_is_what_stands_in_the_file(source: sources.Source) -> None:
    first = next(one for one in source.statements if "first" in one.defined)

    assert SOURCE.splitlines()[first.first - 1 : first.last] == first.text.splitlines()
    assert first.text.startswith("@d(TABLE)\ndef first():")


@pytest.mark.parametrize(
    ("text", "defined"),
    [
        ("import a.b", {"a"}),
        ("from a import c as d", {"d"}),
        ("for A in B: C = 1", {"A", "C"}),
        ("with a() as B: pass", {"B"}),
        ("try:\n    import A\nexcept E as B:\n    def C(): D = 1", {"A", "B", "C"}),
        ("x = [A := B for B in C]", {"x", "A"}),
        ("match a:\n    case [A, *B]: pass\n    case {**C}: pass", {"A", "B", "C"}),
        ("del A, B[0]", {"A"}),
        ("A, (B, C) = 1, (2, 3)", {"A", "B", "C"}),
        ("A: int = 1", {"A"}),
        ("def f(x):\n    y = 1", {"f"}),
        ("class C:\n    x = 1", {"C"}),
    ],
)
def test_what_a_statement_binds(tmp_path: Path, text: str, defined: set[str]) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)

    assert sources.read(path).statements[0].defined == defined


def test_an_import_of_several_names_is_a_statement_for_each(source: sources.Source) -> None:
    assert [one.text for one in source.statements[1:4]] == [
        "import a.b",
        "from c import d",
        "from c import e as f",
    ]


def test_names_are_found_wherever_they_stand() -> None:
    assert sources.names(ast.parse("a.b(c, x=[d for d in e])")) == {"a", "c", "d", "e"}
