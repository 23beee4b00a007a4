"""Runs a command so that nothing of it outlives whoever asked for it; a script of the standard library alone.

``python guard.py COMMAND...`` is started as the leader of a process group, with a pipe as standard input
that its parent holds open and never writes to. When the parent is gone, even by SIGKILL, the pipe closes and
the whole group is killed: the nox inside, its installer, its pytest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def _kill_group_at_end_of_input() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main(command: list[str]) -> int:
    """Run the command and return its exit code, 128 + the signal where one ended it."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    # The group's SIGINT is for the command: the guard stays until it has ended. A handler, unlike "ignore",
    # would not have been inherited either.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    threading.Thread(target=_kill_group_at_end_of_input, daemon=True).start()
    code = child.wait()
    if code < 0:
        # It was killed and may have left children; the guard goes with them.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
