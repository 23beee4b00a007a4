"""No process and no file outlives a run, however the run ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from canishard.launch import processes

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
RUN = """
import sys
from canishard.launch import Launcher, Rules, Where
with Launcher(Where(), Rules(), modules=["misbehaving"]) as launcher:
    server = launcher._servers["first"]
    print(server.run, server.directory, server.process.pid, flush=True)
    case = next(case for case in launcher.cases() if case.id == "misbehaving.stuck_with_children")
    launcher.run(case)
"""


def wait_until(condition: Callable[[], bool], deadline_s: float = 60.0) -> None:
    """Look again until a condition holds; fail after the deadline."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come to hold"
        select.select([], [], [], 0.05)


class Stuck:
    """A run whose ranks are stuck in C and have children in sessions of their own."""

    def __init__(self, folder: Path) -> None:
        shutil.copy(HERE / "misbehaving.py", folder)
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        self.parent = subprocess.Popen(
            [sys.executable, "-c", RUN],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self.parent.stdout
        self.run, directory, server = self.parent.stdout.readline().split()
        self.directory, self.server = Path(directory), int(server)
        files = [folder / f"stuck{rank}" for rank in (0, 1)]
        wait_until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
        self.pids = [int(pid) for file in files for pid in file.read_text().split()]

    def leftovers(self) -> list[int]:
        return [pid for pid in self.pids if processes.is_alive(pid)]


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Stuck]:
    found = Stuck(tmp_path)
    assert len(found.leftovers()) == 4
    yield found
    found.parent.kill()
    found.parent.wait()
    assert found.parent.stdout
    found.parent.stdout.close()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name
)
def test_nothing_outlives_the_parent(stuck: Stuck, number: signal.Signals) -> None:
    stuck.parent.send_signal(number)
    stuck.parent.wait(60)

    wait_until(lambda: not processes.marked(stuck.run) and not stuck.directory.exists())
    assert stuck.leftovers() == []


def test_nothing_outlives_a_killed_server(stuck: Stuck) -> None:
    """The parent sees it, sweeps what the server left, and tries the case again with a new one."""
    os.kill(stuck.server, signal.SIGKILL)

    wait_until(lambda: not stuck.leftovers() and not stuck.directory.exists())
