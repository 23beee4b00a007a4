"""Runs a command for the campaign: its output is shown as it comes and logged, and it never outlives us.

Imports the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PATIENCE_S = 60.0
"""How long an interrupted command has to keep what it measured."""


def run_child(command: Sequence[str], environ: Mapping[str, str], log: Path) -> int:
    """Run a command, show its output and write it to the log; return its exit code.

    On KeyboardInterrupt the command is interrupted too, waited for, and killed where it does not end.
    """
    guarded = (
        list(command)
        if os.name == "nt"
        else [sys.executable, str(Path(__file__).with_name("guard.py")), *command]
    )
    environ = {**environ, **({"FORCE_COLOR": "1"} if sys.stdout.isatty() else {})}
    with log.open("wb") as file, subprocess.Popen(
        guarded,
        env=environ,
        stdin=subprocess.PIPE,  # Held open and never written: the guard sees by it that we live.
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=os.name != "nt",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        forward = threading.Thread(target=_forward, args=(process.stdout, file), daemon=True)
        forward.start()
        try:
            code = process.wait()
        except KeyboardInterrupt:
            _stop(process)
            raise
        finally:
            forward.join(timeout=5.0)
        return code


def _forward(source: IO[bytes], file: IO[bytes]) -> None:
    """Copy what comes to the terminal and to the log, unbuffered: progress is shown within a line."""
    while chunk := os.read(source.fileno(), 65536):
        file.write(chunk)
        file.flush()
        sys.stdout.write(chunk.decode("utf-8", errors="replace"))
        sys.stdout.flush()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the command's whole group, then end it; another Ctrl-C hurries."""
    for number, patience_s in ((signal.SIGINT, PATIENCE_S), (signal.SIGTERM, 10.0), (signal.SIGTERM, 1.0)):
        _signal(process, number)
        try:
            process.wait(timeout=patience_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
        return
    _signal(process, None)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int | None) -> None:
    """Send a signal to the command and all it started, SIGKILL for None."""
    if os.name == "nt":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL if number is None else number)
    except ProcessLookupError:
        return
