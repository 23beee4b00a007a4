"""Which files decide what a cell says: that they exist, when a checkout is dirty, and what changes nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import canishard
from canishard import files
from canishard.record import suite

CHECK = "src/canishard/check.py"
CODE = (
    '"""Says what it is."""\n\nONE = 1\n\n\ndef add(one):\n    """Return the sum."""\n    return one + ONE\n'
)
REFUSALS = "[[refusal]]\npattern = 'no'\nexample = 'no'\nbackend = 'gloo'\n"


@pytest.mark.parametrize("name", suite.DECIDING)
def test_what_decides_exists(name: str) -> None:
    root = files.matrix_dir().parent
    if not (root / "src").exists():
        pytest.skip("not a checkout")
    assert (root / name).exists()


def test_all_that_checks_and_ranks_are_made_of_decides() -> None:
    package = Path(canishard.__file__).parent
    beside_torch = [package / "check.py", package / "checks", package / "launch" / "rank.py"]
    places = [package.parent.parent / name for name in suite.DECIDING]
    for path in beside_torch:
        assert any(path == place or place in path.parents for place in places), path


@pytest.fixture(name="root")
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with something committed of everything."""
    for name, text in {
        CHECK: CODE,
        "src/canishard/checks/one.py": CODE,
        "src/canishard/report/page.py": CODE,
        "matrix/refusals.toml": REFUSALS,
        "matrix/results/record.json": "{}",
        "reports/page.md": "# Page\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        (CHECK, True),
        ("src/canishard/checks/one.py", True),
        ("src/canishard/checks/new.py", True),
        ("matrix/refusals.toml", True),
        ("matrix/results/record.json", False),
        ("matrix/results/new.json", False),
        ("matrix/releases.toml", False),
        ("reports/page.md", False),
        ("src/canishard/report/page.py", False),
    ],
)
def test_only_what_decides_makes_a_checkout_dirty(
    root: Path, name: str, dirty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "checkout", lambda: root)
    assert not suite.is_dirty(root)
    assert not suite.current().is_dirty

    (root / name).write_text("changed = 1\n")

    assert suite.is_dirty(root) is dirty
    found = suite.current()
    assert found.is_dirty is dirty
    assert len(found.commit.removesuffix("-dirty")) == 12


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "checkout", lambda: tmp_path)
    assert suite.current().commit == ""
    assert not suite.is_dirty(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "changes"),
    [
        (CHECK, CODE.replace("Says what it is.", "Says it."), False),
        (CHECK, CODE.replace("Return the sum.", "Add."), False),
        (CHECK, CODE.replace("ONE = 1", "ONE = 1  # why"), False),
        (CHECK, CODE.replace("ONE = 1", "\n\nONE   =  (1)"), False),
        (CHECK, CODE.replace("ONE = 1", "ONE = 2"), True),
        (CHECK, CODE.replace("ONE = 1", 'ONE = "# 1"'), True),
        (CHECK, CODE.replace("one + ONE", "one - ONE"), True),
        ("src/canishard/checks/new.py", CODE, True),
        ("src/canishard/report/page.py", "ONE = 2\n", False),
        ("matrix/refusals.toml", f"# why\n{REFUSALS}", False),
        ("matrix/refusals.toml", REFUSALS.replace("gloo", "nccl"), True),
        ("matrix/results/record.json", "[]", False),
    ],
)
def test_what_changes_the_digest(root: Path, name: str, text: str, changes: bool) -> None:
    before = suite.digest(root)

    (root / name).write_text(text)

    assert (suite.digest(root) != before) is changes
