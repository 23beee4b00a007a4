from __future__ import annotations

from pathlib import Path

import pytest

from canishard.catalogue import digest as module
from canishard.catalogue import sources
from canishard.catalogue.digest import digest

SOURCE = '''"""Checks."""
import torch
from canishard.check import check

SIZE = 3


def helper():
    """Help."""
    return other_helper() + SIZE


def other_helper():
    return 1


@check(feature="a")
def first(context):
    """First."""
    # why
    return helper()


@check(feature="b")
def second(context):
    return 2
'''


def digests(tmp_path: Path, source: str) -> tuple[str, str]:
    sources.read.cache_clear()
    path = tmp_path / "family.py"
    path.write_text(source)
    return digest(path, "first"), digest(path, "second")


@pytest.mark.parametrize(
    ("old", "new", "changes_first", "changes_second"),
    [
        ("return helper()", "return helper() + 1", True, False),
        ("SIZE = 3", "SIZE = 4", True, False),
        ("return 1", "return 0", True, False),
        ('@check(feature="a")', '@check(feature="a", deadline_s=9)', True, False),
        ("return 2", "return 3", False, True),
        ('"""First."""', '"""Another title,\n\n    and more.\n    """', False, False),
        ("    # why\n", "", False, False),
        ('"""Checks."""', '"""Other words."""', False, False),
        ("\n\n@check", "\n\n\n\n@check", False, False),
    ],
)
def test_only_what_a_check_uses_counts(
    tmp_path: Path, old: str, new: str, changes_first: bool, changes_second: bool
) -> None:
    assert old in SOURCE
    before = digests(tmp_path, SOURCE)

    after = digests(tmp_path, SOURCE.replace(old, new))

    assert (before[0] != after[0], before[1] != after[1]) == (changes_first, changes_second)


def test_the_shared_module_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(tmp_path, SOURCE)
    shared = tmp_path / "check.py"
    shared.write_text("TOLERANCE = 1")
    monkeypatch.setattr(module, "SHARED", shared)
    module._shared_code.cache_clear()

    after = digests(tmp_path, SOURCE)
    module._shared_code.cache_clear()

    assert before[0] != after[0]
    assert before[1] != after[1]


def test_a_digest_is_sixteen_hex_digits(tmp_path: Path) -> None:
    found = digests(tmp_path, SOURCE)[0]

    assert (len(found), int(found, 16) >= 0) == (16, True)


def test_the_same_source_has_the_same_digest_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another digest has every check measured again, on every release."""
    shared = tmp_path / "check.py"
    shared.write_text("TOLERANCE = 1")
    monkeypatch.setattr(module, "SHARED", shared)
    module._shared_code.cache_clear()

    found = digests(tmp_path, SOURCE)
    module._shared_code.cache_clear()

    assert found == ("59dd0bc164a14c8f", "bedb2c96a8a5c050")
