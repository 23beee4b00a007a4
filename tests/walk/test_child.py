"""Tests of canishard.walk.child and canishard.walk.guard: output is kept, and nothing outlives whoever asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from canishard.walk import child, guard

pytestmark = pytest.mark.skipif(os.name == "nt", reason="process groups and signals are POSIX's")

SLEEPER = (
    "import pathlib, sys, time, os; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(300)"
)


def wait_for_pid(path: Path, deadline_s: float = 20.0) -> int:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            return int(text)
        time.sleep(0.02)
    raise TimeoutError(path)


def is_alive(pid: int) -> bool:
    try:
        # A process that has ended and that nobody has waited for yet is not alive.
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def ends(pid: int, deadline_s: float = 20.0) -> bool:
    end = time.monotonic() + deadline_s
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_output_is_shown_and_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"]
    assert child.run_child(command, os.environ, tmp_path / "log") == 7
    assert sorted(capsys.readouterr().out.split()) == ["err", "out"]
    assert sorted((tmp_path / "log").read_text(encoding="utf-8").split()) == ["err", "out"]


def test_an_interrupt_ends_the_command_and_is_raised_again(tmp_path: Path) -> None:
    inner = f"import sys; sys.argv = ['', {str(tmp_path / 'pid')!r}]; {SLEEPER}"
    driver = (
        "import os, sys; from pathlib import Path; from canishard.walk.child import run_child\n"
        f"run_child([sys.executable, '-c', {inner!r}], os.environ, Path({str(tmp_path / 'log')!r}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", driver], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    pid = wait_for_pid(tmp_path / "pid")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == -signal.SIGINT
    assert ends(pid)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at processes in /proc")
def test_the_command_dies_with_whoever_asked_for_it(tmp_path: Path) -> None:
    script = str(Path(guard.__file__))
    process = subprocess.Popen(
        [sys.executable, script, sys.executable, "-c", SLEEPER, str(tmp_path / "pid")],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    pid = wait_for_pid(tmp_path / "pid")
    assert is_alive(pid)
    assert process.stdin is not None
    process.stdin.close()
    assert ends(pid)
    assert process.wait(timeout=20) == -signal.SIGKILL


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(3)", 3), ("import os; os.abort()", 134)])
def test_the_exit_code_is_the_commands(code: str, expected: int) -> None:
    process = subprocess.Popen(
        [sys.executable, guard.__file__, sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.wait(timeout=30) == expected
    assert process.stdin is not None
    process.stdin.close()
