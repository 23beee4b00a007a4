"""Process trees on Linux: who descends from whom, killing all of them, and what the kernel says of one.

Standard library only; shared by the parent and by the server. Elsewhere than on Linux the functions that
read /proc find nothing, and a run relies on process sessions alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

MARKER = "CANISHARD_RUN"
"""Environment variable that every process of a run inherits: how the parent finds strays."""

PATH = "CANISHARD_PATH"
"""Environment variable: folders from which a server and its ranks can import beside those that Python has."""

STACKS_SIGNAL = signal.SIGUSR1
"""On this signal a rank writes the Python stacks of all its threads to its file, whatever C code runs."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_SWEEP_S = 10.0


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))


def extend_path() -> None:
    """Let this process import from the folders that the parent named; they come last and stand in for nothing."""
    named = os.environ.get(PATH, "").split(os.pathsep)
    sys.path += [folder for folder in dict.fromkeys(named) if folder and folder not in sys.path]


def become_subreaper() -> None:
    """Have orphaned descendants reparented to this process, so that it can find and kill them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies; exit at once when it already has."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command's name: state, ppid, ...; [] when it is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []


def descendants(root: int) -> list[int]:
    """Return the pids of all live descendants of a process, zombies left out."""
    children: dict[int, list[int]] = {}
    zombies = set()
    for pid in _pids():
        fields = _stat_fields(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
            if fields[0] == "Z":
                zombies.add(pid)
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found.extend(below)
        queue.extend(below)
    return [pid for pid in found if pid not in zombies]


def kill(pid: int, signal_number: int) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal_number)


def marked(run: str) -> list[int]:
    """Return the pids of all processes, this one left out, whose environment carries the mark of a run."""
    wanted = f"{MARKER}={run}".encode()
    found = []
    for pid in _pids():
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def sweep(run: str) -> int:
    """Kill every process that carries the mark of a run until none is left; return how many there were.

    For what outlives a server that was itself killed. Ends after a deadline with RuntimeError, since a
    process that SIGKILL does not end is stuck in the kernel and must be told of.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + _SWEEP_S
    while left := [pid for pid in marked(run) if is_alive(pid)]:
        if time.monotonic() > deadline:
            msg = f"processes that SIGKILL does not end: {left}"
            raise RuntimeError(msg)
        for pid in left:
            kill(pid, signal.SIGKILL)
        killed.update(left)
        os.sched_yield() if hasattr(os, "sched_yield") else None
    return len(killed)


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] != "Z"


def state(pid: int) -> str:
    """Return what the kernel says of a process, such as ``S (sleeping)``; empty when it is gone."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("State:")), "")


def cpu_ticks(pid: int) -> tuple[str, int]:
    """Return a process's state letter and the clock ticks of CPU time it has used; ("", 0) when gone."""
    fields = _stat_fields(pid)
    return (fields[0], int(fields[11]) + int(fields[12])) if fields else ("", 0)


def thread_count() -> int:
    """Return how many threads this process has; 0 where the system does not tell."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 0


def out_of_memory_kills() -> int:
    """Return how often the kernel has killed for memory, by its own counters for the machine and our cgroup."""
    total = 0
    for path in (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events")):
        with contextlib.suppress(OSError):
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                total += int(value) if name == "oom_kill" else 0
    return total
