"""What runs inside a rank: join the group, run the check, report, wait to be released, leave.

Child side only. Also answers two questions that need torch: which cases there are, and what is installed.
Started by the server, forked or as ``python -m canishard.launch.rank FD TASK``.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import json
import os
import socket
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from canishard import checks
from canishard.launch import processes
from canishard.launch.accounts import report_of
from canishard.launch.channel import Channel, Message
from canishard.launch.verdict import OUR_EXIT_CODE

_CHECKS = Path(checks.__file__).parent
RENDEZVOUS_TIMEOUT = timedelta(minutes=30)
"""As long as torch itself waits for a group's members: the parent's deadline ends a case that hangs."""


class Reporter:
    """How a rank tells the parent where it is; the clock is the machine's monotonic one."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def phase(self, name: str) -> None:
        """Say that a phase has begun."""
        self.channel.send({"op": "phase", "phase": name, "at": time.monotonic()})

    def report(self, account: Message) -> None:
        """Say what came out."""
        self.channel.send({"op": "report", "at": time.monotonic(), **account})

    def wait_for_release(self) -> bool:
        """Wait until the parent releases this rank; False when the parent is gone."""
        return bool(self.channel.receive())


def _device(device_type: str, rank: int) -> Any:
    """Return this rank's device and make it the current one; several ranks share one where there are few."""
    torch: Any = importlib.import_module("torch")
    if device_type == "cpu":
        return torch.device("cpu")
    module = getattr(torch, device_type)
    device = torch.device(device_type, rank % module.device_count())
    module.set_device(device)
    return device


def _join(task: Message) -> None:
    """Join the case's process group by a file.

    What ``init_method="file://..."`` does, but for the address: torch decodes none, so that the path could hold no space.
    """
    if task["backend_module"]:
        importlib.import_module(task["backend_module"])
    distributed: Any = importlib.import_module("torch.distributed")
    store = distributed.FileStore(task["rendezvous"], task["world_size"])
    store.set_timeout(RENDEZVOUS_TIMEOUT)
    distributed.init_process_group(
        task["backend"],
        store=distributed.PrefixStore("default_pg", store),
        rank=task["rank"],
        world_size=task["world_size"],
    )


def _leave() -> None:
    distributed: Any = importlib.import_module("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def run_rank(task: Message, channel: Channel) -> int:
    """Run one stage of a case on this rank; return the exit code."""
    reporter = Reporter(channel)
    reporter.phase("start")
    torch: Any = importlib.import_module("torch")
    check: Any = importlib.import_module("canishard.check")
    module = importlib.import_module(task["module"])
    function = getattr(module, task["function"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    file = Path(str(module.__file__))
    source = str(_CHECKS if file.is_relative_to(_CHECKS) else file)
    context: Any = None
    try:
        reporter.phase("init")
        context = check.Context(
            rank=task["rank"],
            world_size=task["world_size"],
            device=_device(task["device"], task["rank"]),
            backend=task["backend"],
            directory=Path(task["directory"]),
            stage=task["stage"],
            api=check.Api(task["needs"]),
        )
        if task["process_group"]:
            _join(task)
        reporter.phase("body")
        function(context, **task["params"])
    except SystemExit:
        raise  # Leaving without a report is what the parent is to see.
    except BaseException as error:  # noqa: BLE001 - the child's edge: whatever was raised is the result
        reporter.report(report_of(context, error, source, check.CheckFault))
        reporter.wait_for_release()
        return 0  # No destroy_process_group after an error: it can hang.
    reporter.report(report_of(context, None, source, check.CheckFault))
    if reporter.wait_for_release():
        reporter.phase("released")
        _leave()
        reporter.phase("teardown")
    return 0


def run_task(task: Message, channel: Channel) -> int:
    """Do what the task asks; return the exit code."""
    faulthandler.enable(all_threads=True)
    stacks = Path(task["stacks"]).open("w", encoding="utf-8")  # noqa: SIM115 - stays open as long as the process
    faulthandler.register(processes.STACKS_SIGNAL, file=stacks, all_threads=True)
    tempfile.tempdir = None  # Forked from a server that may have looked up its own.
    if task["task"] == "rank":
        return run_rank(task, channel)
    inventory = importlib.import_module("canishard.launch.inventory")
    answer = (
        inventory.collect(task["modules"], task["own"]) if task["task"] == "collect" else inventory.describe()
    )
    channel.send({"op": "answer", "answer": answer})
    return 0


def attempt(task: Message, channel: Channel) -> int:
    """Run a task; return the exit code, which tells where code of ours has failed."""
    try:
        return run_task(task, channel)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - ours to show: the parent sees the code and the output's tail
        traceback.print_exc()
        return OUR_EXIT_CODE


def run_and_exit(task: Message, channel: Channel) -> NoReturn:
    """Run a task in a forked child; exit handlers run, the interpreter's own teardown does not."""
    code = attempt(task, channel)
    atexit._run_exitfuncs()  # noqa: SLF001 - os._exit runs none, and multiprocessing relies on its own
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # A check may have closed it.
    os._exit(code & 0xFF)


if __name__ == "__main__":
    processes.extend_path()
    sys.exit(attempt(json.loads(sys.argv[2]), Channel(socket.socket(fileno=int(sys.argv[1])))))
