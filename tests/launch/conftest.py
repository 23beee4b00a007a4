from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from canishard.launch import Launcher, Where, refusals
from canishard.launch.outcome import Case, Outcome

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder on the children's path that holds the misbehaving checks."""
    path = tmp_path_factory.mktemp("misbehaving")
    shutil.copy(HERE / "misbehaving.py", path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")])))
        patch.setenv("NOT_PASSED_ON", "1")
        yield path


@pytest.fixture(scope="session")
def launcher(folder: Path) -> Iterator[Launcher]:  # noqa: ARG001 - it is on the children's path
    rules = refusals.load().rules
    with Launcher(Where(), rules, modules=["misbehaving"]) as found:
        yield found


@pytest.fixture(scope="session")
def cases(launcher: Launcher) -> dict[str, Case]:
    return {f"{case.id.removeprefix('misbehaving.')}@{case.world_size}": case for case in launcher.cases()}


@pytest.fixture(scope="session")
def run(launcher: Launcher, cases: dict[str, Case]) -> Callable[[str], Outcome]:
    """Return what runs a case once in a session: many tests look at one outcome."""
    return functools.cache(lambda name: launcher.run(cases[name]))


@pytest.fixture
def run_again(launcher: Launcher, cases: dict[str, Case]) -> Callable[[str], Outcome]:
    return lambda name: launcher.run(cases[name])
