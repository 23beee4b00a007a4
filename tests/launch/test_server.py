"""What the server loads for the ranks, and what they do not take over from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from canishard.launch import Launcher, Rules, ServerLost, Where
from canishard.launch.outcome import Status

pytestmark = pytest.mark.torch

HEAD = """
import os, pathlib, weakref
from canishard.check import check

@check(feature="f", world_sizes=(2,))
def fine(context):
    \"\"\"Fine.\"\"\"
    context.equal("one", 1, 1)
"""
FAILS = HEAD + "\nraise RuntimeError('half way')\n"
FINALISES = (
    HEAD
    + """
def leave(made_by):
    with open(os.environ["VIRTUAL_ENV"], "a") as file:
        file.write(f"{made_by == os.getpid()}\\n")

weakref.finalize(check, leave, os.getpid())
"""
)


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Launcher]:
    """Return a launcher of checks in a module with the given text."""

    def of(text: str) -> Launcher:
        (tmp_path / "written.py").write_text(text, encoding="utf-8")
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        monkeypatch.setenv("PYTHONPATH", path)
        rules = Rules()
        return Launcher(Where(), rules, modules=["written"])

    return of


def test_a_module_that_fails_half_way_shows_its_own_error(launcher: Callable[[str], Launcher]) -> None:
    with launcher(FAILS) as found, pytest.raises(ServerLost, match="RuntimeError: half way"):
        found.cases()


def test_what_the_server_made_is_finalised_by_the_server_alone(
    launcher: Callable[[str], Launcher], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"
    monkeypatch.setenv("VIRTUAL_ENV", str(left))  # One of the few variables that are passed on.

    with launcher(FINALISES) as found:
        [case] = found.cases()
        assert found.run(case).status is Status.PASS
        assert not left.exists()

    assert left.read_text(encoding="utf-8") == "True\n"
