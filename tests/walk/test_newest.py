"""Rows for new releases: where they go, which are left out, and that the rest of the file stays as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from canishard import files, releases
from canishard.walk import newest

TEXT = """# A comment that stays.
pins = ["numpy==2.4.6"]

[[python]]
version = "3.11"
why = "Old."

[[python]]
version = "3.12"
why = "New."

[[release]]
version = "2.4.0"
released = "2024-07-24"
python = "3.11"
pins = ["setuptools"]

[[release]]
version = "2.5.0"
released = "2024-10-17"
python = "3.12"
ci = true  # Why.
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "releases.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_rows_are_added_in_order_and_the_rest_stays(path: Path) -> None:
    assert newest.update(path, ["2.5.0", "2.4.1", "2.6.0", "2.4.0"], "2026-11-30") == ["2.4.1", "2.6.0"]

    row = '[[release]]\nversion = "{}"\nreleased = "2026-11-30"\npython = "3.12"\n'
    before, after = TEXT.split('[[release]]\nversion = "2.5.0"')
    middle = '[[release]]\nversion = "2.5.0"' + after
    assert (
        path.read_text(encoding="utf-8") == f"{before}{row.format('2.4.1')}\n{middle}\n{row.format('2.6.0')}"
    )
    assert [found.version for found in releases.load(path)] == ["2.4.0", "2.4.1", "2.5.0", "2.6.0"]


@pytest.mark.parametrize(
    "version", ["2.3.1", "1.13.1", "2.6.0rc1", "2.6.0.post1", "2.6.0+cpu", "2.6.0.dev20261130", "2.6", "x"]
)
def test_what_is_no_new_release(path: Path, version: str) -> None:
    assert newest.update(path, [version], "2026-11-30") == []
    assert path.read_text(encoding="utf-8") == TEXT


def test_the_real_file_takes_a_row(tmp_path: Path) -> None:
    path = tmp_path / "releases.toml"
    path.write_bytes((files.matrix_dir() / "releases.toml").read_bytes())

    assert newest.update(path, ["9.0.0"], "2030-01-01") == ["9.0.0"]
    assert releases.load(path)[-1].released == "2030-01-01"


def answer(monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str = "") -> None:
    done = SimpleNamespace(returncode=code, stdout=out, stderr=err)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)


def test_what_pip_lists(
    monkeypatch: pytest.MonkeyPatch, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, 0, "torch (2.6.0)\nAvailable versions: 2.6.0, 2.5.0\n  INSTALLED: 2.5.0\n")

    assert newest.main([], path) == 0
    assert capsys.readouterr().out == "added: 2.6.0\n"
    assert newest.main([], path) == 0
    assert capsys.readouterr().out == "no new release\n"


def test_an_index_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, 1, "", "ERROR: No matching\ndistribution")

    assert newest.main([], path) == 11
    assert capsys.readouterr().err == (
        "pip index versions torch: no list of releases: ERROR: No matching distribution\n"
    )
    assert path.read_text(encoding="utf-8") == TEXT
