"""Tests of .github/branches.py: real git against a remote on this disk, and a stand-in for gh."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up import AWKWARD

SCRIPT = Path(__file__).parents[1] / ".github" / "branches.py"
SECRET = "a-token-that-is-nowhere"  # noqa: S105 (made up)

GH = f"""#!{sys.executable}
import json, os, pathlib, sys
log = pathlib.Path(os.environ["FAKE_GH"])
calls = json.loads(log.read_text()) if log.exists() else []
log.write_text(json.dumps([*calls, sys.argv[1:]]))
if sys.argv[1:3] == ["pr", "list"] and any(call[:2] == ["pr", "create"] for call in calls):
    print(7)
if sys.argv[1:3] == ["pr", "create"] and os.environ.get("FAKE_GH_FAILS"):
    sys.exit("GitHub Actions is not permitted to create or approve pull requests")
"""

Checkout = Callable[[str], Path]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit on main, in an environment with no configuration of the user's."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "GITHUB_", "GH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GH_TOKEN", SECRET)
    monkeypatch.setenv("FAKE_GH", str(tmp_path / "gh.json"))
    fake = tmp_path / "bin" / "gh"
    fake.parent.mkdir()
    fake.write_text(GH, encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    path = tmp_path / "remote"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch", "main", path], check=True)
    first = tmp_path / "first"
    subprocess.run(["git", "clone", "--quiet", path, first], check=True, capture_output=True)
    (first / "row").write_text("a", encoding="utf-8")
    git(first, "add", "--all")
    git(first, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "First")
    git(first, "push", "--quiet", "origin", "HEAD:main")
    return path


@pytest.fixture
def checkout(remote: Path, tmp_path: Path) -> Checkout:
    """Return what makes a checkout of main, as a job has one."""

    def make(name: str) -> Path:
        path = tmp_path / name
        subprocess.run(["git", "clone", "--quiet", f"file://{remote}", path], check=True)
        return path

    return make


def branches(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def done(folder: Path, *arguments: str) -> str:
    ran = branches(folder, *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def gh_calls(tmp_path: Path) -> list[list[str]]:
    log = tmp_path / "gh.json"
    calls: list[list[str]] = json.loads(log.read_text(encoding="utf-8")) if log.exists() else []
    return calls


def test_the_first_night_makes_the_branch_and_the_second_finds_it(checkout: Checkout, remote: Path) -> None:
    one, two = checkout("one"), checkout("two")
    assert "no such branch yet" in done(one, "open", "nightly", "state")
    (one / "state" / "gloo-cpu").mkdir()
    (one / "state" / "gloo-cpu" / "state.json").write_text("{}", encoding="utf-8")
    assert "saved" in done(one, "save", "nightly", "state")

    done(two, "open", "nightly", "state")

    assert (two / "state" / "gloo-cpu" / "state.json").read_text(encoding="utf-8") == "{}"
    assert not (two / "state" / "row").exists()
    assert git(remote, "log", "-1", "--format=%an", "nightly") == "github-actions[bot]"


def test_a_folder_and_its_files_may_have_any_name(checkout: Checkout, remote: Path) -> None:
    name = "".join(AWKWARD)
    there = checkout(name)
    done(there, "open", "nightly", name)
    (there / name / name).write_text("{}", encoding="utf-8")
    assert "saved" in done(there, "save", "nightly", name)
    assert git(remote, "ls-tree", "-z", "--name-only", "nightly").rstrip("\0") == name

    (there / f"{name}.json").write_text("{}", encoding="utf-8")
    (there / "other").write_text("{}", encoding="utf-8")
    done(there, "propose", "proposed", "--title", name, f"{name}.json")
    assert git(remote, "ls-tree", "-z", "--name-only", "proposed").split("\0")[:-1] == sorted(
        [f"{name}.json", "row"]
    )


def test_a_night_that_changed_nothing_commits_nothing(checkout: Checkout, remote: Path) -> None:
    one = checkout("one")
    done(one, "open", "nightly", "state")
    assert "nothing changed" in done(one, "save", "nightly", "state")
    assert git(remote, "branch", "--list", "nightly") == ""


@pytest.mark.parametrize("exists", [False, True])
def test_two_backends_that_save_at_once_both_stay(checkout: Checkout, remote: Path, exists: bool) -> None:
    places = [checkout("one"), checkout("two")]
    if exists:
        done(zero := checkout("zero"), "open", "nightly", "state")
        (zero / "state" / "flakes.json").write_text("{}", encoding="utf-8")
        done(zero, "save", "nightly", "state")
    for place in places:
        done(place, "open", "nightly", "state")
        (place / "state" / f"{place.name}.json").write_text("{}", encoding="utf-8")
    for place in places:
        done(place, "save", "nightly", "state")

    kept = {"one.json", "two.json"} | ({"flakes.json"} if exists else set())
    assert set(git(remote, "ls-tree", "--name-only", "nightly").splitlines()) == kept


def test_a_remote_that_does_not_answer_is_not_a_missing_branch(checkout: Checkout, remote: Path) -> None:
    one = checkout("one")
    shutil.rmtree(remote)

    ran = branches(one, "open", "nightly", "state")

    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "ls-remote" in ran.stderr
    assert not (one / "state").exists()


def test_a_folder_with_something_in_it_is_left_alone(checkout: Checkout) -> None:
    one = checkout("one")
    (one / "state").mkdir()
    (one / "state" / "mine").touch()

    ran = branches(one, "open", "nightly", "state")

    assert (ran.returncode, ran.stderr) == (1, "branches: state: expected no such folder, or an empty one\n")


def test_what_cannot_be_pushed_is_told_and_not_lost(checkout: Checkout, remote: Path) -> None:
    one = checkout("one")
    done(one, "open", "nightly", "state")
    (one / "state" / "a").touch()
    shutil.rmtree(remote)

    ran = branches(one, "save", "nightly", "state")

    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1


def test_the_token_is_written_nowhere(checkout: Checkout) -> None:
    one = checkout("one")
    done(one, "open", "nightly", "state")
    (one / "state" / "a").touch()
    done(one, "save", "nightly", "state")

    files = [path for path in one.rglob("*") if path.is_file()]
    assert files
    assert not any(SECRET.encode() in path.read_bytes() for path in files)
    assert not any(b"credential" in path.read_bytes() for path in files if path.name == "config")


def test_git_asks_gh_for_the_token_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Callable[[], dict[str, str]] = runpy.run_path(str(SCRIPT))["_settings"]
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GH_TOKEN", raising=False)
    assert settings() == {}
    monkeypatch.setenv("GH_TOKEN", SECRET)
    assert settings() == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "credential.helper",
        "GIT_CONFIG_VALUE_0": "!gh auth git-credential",
    }


def test_what_changed_becomes_one_pull_request_and_its_verdict_is_asked_for(
    checkout: Checkout, remote: Path, tmp_path: Path
) -> None:
    for name, text in (("one", "b"), ("two", "c")):
        place = checkout(name)
        (place / "row").write_text(text, encoding="utf-8")
        (place / "rest").write_text("not asked for", encoding="utf-8")
        done(place, "propose", "matrix/measured", "--title", "Records measured anew", "row")

    assert git(remote, "show", "matrix/measured:row") == "c"
    assert git(remote, "log", "--format=%s", "matrix/measured") == "Records measured anew\nFirst"
    assert git(remote, "ls-tree", "--name-only", "matrix/measured") == "row"
    assert git(remote, "show", "main:row") == "a"
    calls = gh_calls(tmp_path)
    assert [call[:2] for call in calls] == [
        ["pr", "list"],
        ["pr", "create"],
        ["workflow", "run"],
        ["pr", "list"],
        ["workflow", "run"],
    ]
    create = calls[1]
    assert create[create.index("--head") + 1] == "matrix/measured"
    assert create[create.index("--base") + 1] == "main"
    assert calls[2][2:] == ["ci.yml", "--ref", "matrix/measured"]


def test_where_nothing_changed_nothing_is_proposed(checkout: Checkout, remote: Path, tmp_path: Path) -> None:
    one = checkout("one")
    (one / "rest").touch()
    assert "nothing to propose" in done(one, "propose", "matrix/measured", "--title", "x", "row")
    assert gh_calls(tmp_path) == []
    assert git(remote, "branch", "--list", "matrix/*") == ""


def test_a_pull_request_that_may_not_be_opened_is_told_with_githubs_words(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GH_FAILS", "1")
    one = checkout("one")
    (one / "row").write_text("b", encoding="utf-8")

    ran = branches(one, "propose", "matrix/measured", "--title", "x", "row")

    assert ran.returncode == 1
    assert ran.stderr.rstrip().endswith("not permitted to create or approve pull requests")
    assert len(ran.stderr.splitlines()) == 1


def test_without_gh_that_is_said(checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = checkout("one")
    (one / "row").write_text("b", encoding="utf-8")
    only = tmp_path / "only"
    only.mkdir()
    found: Any = shutil.which("git")
    (only / "git").symlink_to(found)
    monkeypatch.setenv("PATH", str(only))

    ran = branches(one, "propose", "matrix/measured", "--title", "x", "row")

    assert (ran.returncode, ran.stderr) == (1, "branches: gh: not found on PATH\n")
