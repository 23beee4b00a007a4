"""A row that was renamed goes on answering to its old id."""

from __future__ import annotations

from pathlib import Path

import pytest

from canishard import catalogue
from canishard.catalogue import renamed
from canishard.errors import ConfigurationError


def written(folder: Path, *pairs: tuple[str, str]) -> Path:
    path = folder / "renamed.toml"
    path.write_text("".join(f'[[renamed]]\nold = "{old}"\nnew = "{new}"\n' for old, new in pairs))
    return path


def test_the_committed_file_names_old_ids_and_rows_that_there_are() -> None:
    rows = catalogue.load()

    assert {old for old in renamed.load() if old in rows} == set()
    assert set(renamed.load().values()) <= set(rows)


@pytest.mark.parametrize(
    ("asked", "found", "note"),
    [
        ("a.old", "a.new", "a.old is called a.new now"),
        ("a.new", "a.new", ""),
        ("a.never", "a.never", ""),
        ("a.taken", "a.taken", ""),  # Another row has the name by now.
    ],
)
def test_an_old_id_stands_for_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, found: str, note: str
) -> None:
    known = renamed.load(written(tmp_path, ("a.old", "a.new"), ("a.taken", "a.new")))
    monkeypatch.setattr(renamed, "load", lambda: known)

    assert catalogue.resolve(asked, {"a.new", "a.taken"}) == (found, note)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("a.x", "a.y"), ("a.x", "a.z")], "renamed.toml: renamed[1].old: a.x is renamed already"),
        ([("a.x", "a.y"), ("a.y", "a.z")], "renamed.toml: renamed[0].new: a.y is renamed itself: write a.z"),
    ],
)
def test_what_leads_nowhere_is_said(tmp_path: Path, pairs: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        renamed.load(written(tmp_path, *pairs))

    assert str(raised.value) == said
