"""Made-up files of checks, laid out as ours are, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from canishard.catalogue import entries, program, sources

CHECK = """import torch
from canishard.declare import Row, Stage, check

LIMIT = 1


class Context:
    def equal(self):
        return compare()


def compare():
    return LIMIT


def scaled(tree):
    return tree
"""
DECLARE = '''def check(**declared):
    """Words."""
    return lambda function: function


class Row:
    pass


class Stage:
    pass
'''


class Files:
    """A package with checks, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(check=CHECK, declare=DECLARE)

    def write(self, **texts: str) -> None:
        """Write modules: ``checks__a__b`` is ``checks/a/b.py``; what was read before is forgotten."""
        for name, text in texts.items():
            path = self.folder.joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for cached in (sources.read, program.read, entries._load):
            cached.cache_clear()

    def path(self, name: str) -> Path:
        return self.folder.joinpath(*name.split("__")).with_suffix(".py")


def package(folder: Path, patch: pytest.MonkeyPatch) -> Files:
    """Return an empty package, which stands for canishard's own."""
    patch.setattr(program, "PACKAGE", folder)
    patch.setattr(program, "SHARED", folder / "check.py")
    patch.setattr(program, "DECLARING", folder / "declare.py")
    patch.setattr(entries, "CHECKS", folder / "checks")
    return Files(folder)
