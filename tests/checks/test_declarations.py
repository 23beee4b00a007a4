"""What our own checks declare fits what they do, and what there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from canishard import catalogue
from canishard.catalogue import Entry, entries, ids
from canishard.catalogue.reach import closure

ROWS = catalogue.load()


def source_of(entry: Entry, folder: Path | None = None) -> list[ast.stmt]:
    """Return what a row's check reaches, ``check.py`` and names that stand for constants left out."""
    found = closure(entries.place(entry, folder), entry.function, entry.entry)
    files = [statements for source, statements in found if source.path.name not in {"check.py", "declare.py"}]
    return [statement.node for statements in files for statement in statements]


def asked(nodes: Iterable[ast.AST]) -> set[str]:
    """Return what is asked of ``context.api``, or of ``api``, which stands for it."""
    return {
        node.attr
        for tree in nodes
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"context.api", "api"}
    }


def named(nodes: Iterable[ast.AST]) -> set[str]:
    """Return every attribute and imported name, of torch's modules or of what it returns."""
    walked = [node for tree in nodes for node in ast.walk(tree)]
    attributes = {node.attr for node in walked if isinstance(node, ast.Attribute)}
    return attributes | {
        alias.name for node in walked if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def faults(rows: Mapping[str, Entry], folder: Path | None = None) -> list[str]:
    """Return what does not fit, a line each."""
    found = []
    for row, entry in rows.items():
        others = [other for other in rows if other != row]
        found += [
            f"{row}: rests_on {pattern}: no other row is called so"
            for pattern in entry.rests_on
            if not ids.matching([pattern], others)
        ]
        roots = {"torch", *entry.packages}
        found += [
            f"{row}: needs {name}: no dotted name below {', '.join(sorted(roots))}"
            for need in entry.needs
            for name in need
            if not re.fullmatch(r"\w+(\.\w+)+", name) or name.partition(".")[0] not in roots
        ]
        nodes = source_of(entry, folder)
        declared = {need[0].rpartition(".")[2] for need in entry.needs}
        found += [
            f"{row}: uses context.api.{name}, which it does not need" for name in asked(nodes) - declared
        ]
        found += [f"{row}: needs {name}, which it does not use" for name in declared - named(nodes)]
    return found


def test_what_checks_declare_fits() -> None:
    assert faults(ROWS) == []


CHECK = '''from canishard.check import Context, check


def asks(context):
    return context.api.Shard(0)


@check(feature="f")
def base(context: Context):
    """A base."""


@check(feature="f", needs=["torch.a.Shard", "torch.a.Mesh"], rests_on=["family.base"])
def works(context: Context):
    """It works."""
    asks(context).Mesh
'''


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", []),
        ('"family.base"', '"family.bas"', ["family.works: rests_on family.bas: no other row is called so"]),
        ('"family.base"', '"family.w*"', ["family.works: rests_on family.w*: no other row is called so"]),
        ("torch.a.Mesh", "numpy.Mesh", ["family.works: needs numpy.Mesh: no dotted name below torch"]),
        (
            "torch.a.Mesh",
            "torch.a b.Mesh",
            ["family.works: needs torch.a b.Mesh: no dotted name below torch"],
        ),
        ("torch.a.Shard", "torch.a.Mesh", ["family.works: uses context.api.Shard, which it does not need"]),
        (".Mesh\n", "\n", ["family.works: needs Mesh, which it does not use"]),
    ],
)
def test_what_does_not_fit_is_seen(tmp_path: Path, old: str, new: str, said: list[str]) -> None:
    (tmp_path / "family.py").write_text(CHECK.replace(old, new) if old else CHECK)

    assert faults(catalogue.load(tmp_path), tmp_path) == said


def test_the_ids_of_rows_are_what_their_parts_say() -> None:
    for row, entry in ROWS.items():
        assert row == ids.build(entry.family, entry.subject, entry.params, entry.workaround)
        assert (ids.family(row), ids.workaround(row)) == (entry.family, entry.workaround)
        assert ids.name(row) == f"{entry.family}.{entry.subject}"
        assert entry.module.startswith(f"canishard.checks.{entry.family}.")
