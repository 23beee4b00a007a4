"""Tests of the noxfile and of what is written once only: torch versions, and nox's own dependencies."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from canishard import releases
from canishard.files import read_toml

pytest.importorskip("nox")

ROOT = Path(__file__).parents[1]
TORCH_VERSION = re.compile(r"(?<![\w.])2\.\d{1,2}(\.\d+)?(?![\w.])")
"""What a torch version looks like: no other version that we write begins so."""


def nox(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "nox",
        "--noxfile",
        str(ROOT / "noxfile.py"),
        "--script-mode",
        "none",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_there_is_a_session_for_each_row() -> None:
    listed = nox("--list", "--json", "--session", "checks")
    assert listed.returncode == 0, listed.stderr
    sessions = {session["session"]: session for session in json.loads(listed.stdout)}
    rows = releases.load()
    each = releases.on_each_python(rows)
    assert list(sessions) == [f"checks({row.session})" for row in each]
    assert [session["python"] for session in sessions.values()] == [row.python for row in each]
    said = [session["call_spec"] for session in sessions.values()]
    assert [(one["version"], one["interpreter"]) for one in said] == [
        (row.version, row.interpreter) for row in each
    ]
    tagged = [name for name, session in sessions.items() if "ci-checks" in session["tags"]]
    assert tagged == [f"checks({releases.ci_release(rows).version})"]


def test_lint_and_tests_run_when_nothing_is_said() -> None:
    listed = nox("--list", "--json")
    assert {session["name"] for session in json.loads(listed.stdout)} == {"lint", "tests"}


def test_the_script_block_names_what_the_package_needs() -> None:
    source = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    block = re.search(r"^# dependencies = \[\n(.*?)^# \]", source, re.MULTILINE | re.DOTALL)
    assert block
    needed = set(re.findall(r'"(.+)",$', block.group(1), re.MULTILINE))
    project = read_toml(ROOT / "pyproject.toml")["project"]
    assert {item for item in needed if not item.startswith(("nox", "uv"))} == set(project["dependencies"])


def strings_of(path: Path) -> list[str]:
    """Return a module's strings without blanks, another file's lines but for its comments.

    What has blanks is a sentence, such as an example in a message: nothing follows from it.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return re.sub(r"(?m)(^|\s)#.*$", "", text).splitlines()
    tree = ast.parse(text)
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [string for string in strings if " " not in string]


def test_no_torch_version_is_written_in_code() -> None:
    folders = [path for name in ("src", ".github", ".ci") for path in (ROOT / name).rglob("*")]
    files = [
        path
        for path in [ROOT / "noxfile.py", *folders]
        if path.is_file() and path.suffix in {".py", ".yml", ".sh", ""} and "__pycache__" not in path.parts
    ]
    found = [
        f"{path.relative_to(ROOT)}: {string}"
        for path in files
        for string in strings_of(path)
        if TORCH_VERSION.search(string)
    ]
    assert found == []


@pytest.mark.parametrize(("text", "found"), [("torch==2.8.0", True), ("torch 2.13", True), ("a 12.8", False)])
def test_what_a_torch_version_looks_like(text: str, found: bool) -> None:
    assert bool(TORCH_VERSION.search(text)) is found
