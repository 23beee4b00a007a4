"""One measurement of a release into a folder of its own: what repeated runs and bisection are made of.

Runs in nox's own process, so it imports no torch.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from canishard import record
from canishard.errors import InfraError
from canishard.record import Record
from canishard.walk import install

Runner = Callable[[Sequence[str], Mapping[str, str], Path], int]
"""Runs a command with an environment, its output shown and logged to the file; returns the exit code."""


def measure(
    session: str,
    folder: Path,
    root: Path,
    runner: Runner,
    *,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    resume: bool = False,
) -> Record:
    """Run a nox session that measures, with its state and record in ``folder``; return the record that it wrote.

    What an earlier run left there is removed first. With ``resume`` it is gone on from: whoever says so knows that
    the earlier run was asked the same. Raises InfraError where the run leaves no record.
    """
    if not resume:
        clear(folder)
    if not record.load_all(folder):
        folder.mkdir(parents=True, exist_ok=True)
        nox = [sys.executable, "-m", "nox", "--noxfile", str(root / "noxfile.py"), "-s", session]
        files = ["--record", str(folder), "--state", str(folder)]
        runner([*nox, "--", *files, *options], environment(variables), folder / "log")
    found = record.load_all(folder)
    if len(found) != 1:
        msg = f"{session} left no record: {last_words(folder / 'log')}"
        raise InfraError(msg)
    return found[0]


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a session is started with: our own variables, others in their place, and where torch comes from."""
    environ = {**os.environ, **(variables or {})}
    return {**environ, install.INDEX_VARIABLE: install.choose_index(environ)}


def clear(folder: Path) -> None:
    """Remove what a run leaves in its folder, and nothing else: the folder may be the user's own."""
    for path in folder.glob("torch-*.json"):
        path.unlink()
    shutil.rmtree(folder / "journal", ignore_errors=True)
    (folder / "log").unlink(missing_ok=True)


def last_words(log: Path) -> str:
    """Return the line of a session's output that says best why it ended, with where all of it is."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    said = [line.strip() for line in lines if line.strip() and not line.startswith("nox > ")]
    ours = [line for line in said if "canishard: " in line]
    words = (ours or said or ["it said nothing"])[-1].rpartition("canishard: ")[2]
    return f"{words[:300]} (all of it: {log})"
