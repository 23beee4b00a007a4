"""What a function of a file reaches is found by name, and its text is what stands in the file."""

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


def test_a_function_reaches_constants_functions_and_imports_in_file_order(source: sources.Source) -> None:
    found = sources.closure(source.path, "first")

    assert [statement.text.partition("\n")[0] for statement in found] == [
        "import a.b",
        "from c import (",
        "SIZE, OTHER = 3, 4",
        'TABLE: dict = {"x": lambda value: helper(value)}',
        "@d(TABLE)",
        "def helper(value):",
    ]


def test_a_statement_s_text_is_what_stands_in_the_file(source: sources.Source) -> None:
    first = next(one for one in source.statements if "first" in one.defined)

    assert SOURCE.splitlines()[first.first - 1 : first.last] == first.text.splitlines()
    assert first.text.startswith("@d(TABLE)\ndef first():")


@pytest.mark.parametrize(
    ("text", "defined"),
    [
        ("import a.b, c as d", {"a", "d"}),
        ("from a import b, c as d", {"b", "d"}),
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


def test_a_name_that_is_nowhere_reaches_nothing(source: sources.Source) -> None:
    assert sources.reached(source, ["nowhere"]) == []


def test_code_has_no_docstring_no_comment_and_no_blank_line(source: sources.Source) -> None:
    assert (
        sources.code(source, 1, len(SOURCE.splitlines()))
        == SOURCE.replace('"""Checks."""\n', "")
        .replace('"""A docstring."""\n', "")
        .replace('    """First."""\n    # A comment.\n\n', "")
        .replace("\n\n\n", "\n")
        .replace("\n\n", "\n")
        .rstrip()
    )


def test_names_are_found_wherever_they_stand() -> None:
    assert sources.names(ast.parse("a.b(c, x=[d for d in e])")) == {"a", "c", "d", "e"}
