"""The process that starts ranks: forks them with torch already loaded, or has them exec a new interpreter.

Runs as ``python -m canishard.launch.server FD START_METHOD DIRECTORY``: single-threaded, in a session of its
own, a child subreaper. It does what the parent asks over the socket FD and never runs a check itself, so it
always answers. When the socket closes, however the parent ended, it kills every descendant, removes
DIRECTORY and exits. Not multiprocessing's forkserver: that one hands its alive pipe to every child, so ranks
stuck in C outlive a killed parent, and it runs the parent's ``__main__`` again in each child.

Requests: ``{"op": "start", "tasks": [...]}`` with a descriptor a task, ``{"op": "signal", "pids", "signal"}``,
``{"op": "kill_all"}``. Messages: ``ready``, ``started``, ``exited``, ``killed``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import sys
import time
import traceback
import weakref
from typing import Any, NoReturn

from canishard.declare import CHECKS
from canishard.launch import memory, processes
from canishard.launch.channel import Channel, Message

MAX_FDS = 128
_KILL_S = 10.0
_WARM = (
    # Loaded once here instead of in every rank; a release lacks some of them, which is no fault.
    "torch.distributed",
    "torch.distributed._composable.fsdp",
    "torch.distributed._tensor",
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint.format_utils",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.device_mesh",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
    "torch.distributed.tensor.parallel",
    "torch.nn.parallel",
    # What torch or a check imports on first use: around checkpoints, and a table of compile times at exit.
    "fsspec.core",
    "torch.utils.serialization.config",
    "tabulate",
    "safetensors.torch",
    "canishard.check",
    "canishard.launch.rank",
)


def load(modules: list[str]) -> Message:
    """Import torch and what checks use of it; say whether it is safe to fork from here afterwards."""
    gc.disable()  # Collections take a tenth of the loading and find next to nothing.
    try:
        torch: Any = importlib.import_module("torch")
    except BaseException as error:  # noqa: BLE001 - whatever stops torch from loading is the answer
        return {
            "op": "ready",
            "failed": f"{type(error).__name__}: {error}",
            "traceback": traceback.format_exc(),
        }
    for name in _WARM:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    _load_checks(modules)
    # torch keeps a traceback with a seed; reading the sources for it was the largest part of a rank's start.
    with contextlib.suppress(Exception):
        torch.manual_seed(0)
    gc.collect()
    gc.freeze()
    gc.enable()
    memory.collapse()
    unsafe = ""
    if sys.platform != "linux":
        unsafe = f"forking with torch loaded is not safe on {sys.platform}"
    elif processes.thread_count() != 1:
        unsafe = f"{processes.thread_count()} threads run in the server after importing torch"
    elif torch.cuda.is_initialized():
        unsafe = "a CUDA context exists in the server after importing torch"
    return {"op": "ready", "unsafe": unsafe}


def _load_checks(modules: list[str]) -> None:
    """Import modules of checks, of a package all that is in it.

    This is for speed alone: where something cannot be imported, the rank that needs it shows the fault.
    """
    names = list(modules)
    for name in names:
        declared = len(CHECKS)
        try:
            module = importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - see above; sys.exit and pytest.skip are no Exception
            del CHECKS[declared:]  # Else a rank that tries again would declare them twice.
            continue
        names += [inner.name for inner in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}.")]


class Server:
    """The loop that serves one parent."""

    def __init__(self, control: Channel, start_method: str) -> None:
        self.control = control
        self.start_method = start_method
        self.pids: set[int] = set()
        self.wakeup, wakeup_write = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(wakeup_write, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # The parent decides; it closes the socket.

    def serve(self) -> None:
        """Answer requests until the parent closes the socket."""
        descriptors: list[int] = []
        while True:
            ready, _, _ = select.select([self.control.fileno(), self.wakeup], [], [])
            if self.wakeup in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wakeup, 4096)
            self.reap()
            if self.control.fileno() not in ready:
                continue
            messages, received = self.control.receive_fds(MAX_FDS)
            if messages is None:
                return
            descriptors.extend(received)
            for message in messages:
                self.answer(message, descriptors)

    def answer(self, message: Message, descriptors: list[int]) -> None:
        """Do what one request asks."""
        if message["op"] == "start":
            tasks = message["tasks"]
            fds = [descriptors.pop(0) for _ in tasks]
            pids = [self.start(task, fds, index) for index, task in enumerate(tasks)]
            self.control.send({"op": "started", "request": message["request"], "pids": pids})
            for fd in fds:
                os.close(fd)
        elif message["op"] == "signal":
            for pid in self.pids.intersection(message["pids"]):  # Ours and not yet reaped: no reused pid.
                processes.kill(pid, message["signal"])
        elif message["op"] == "kill_all":
            self.control.send({"op": "killed", "stuck": self.kill_all()})

    def start(self, task: Message, fds: list[int], index: int) -> int:
        """Fork the process of one task; return its pid."""
        server_pid = os.getpid()
        pid = os.fork()
        if pid:
            self.pids.add(pid)
            return pid
        try:
            self.leave(server_pid)
            for fd in fds:
                if fd != fds[index]:
                    os.close(fd)
            become(task, fds[index], self.start_method)
        except BaseException:  # noqa: BLE001 - a forked child must never return into the server's loop
            traceback.print_exc()
        os._exit(70)

    def leave(self, server_pid: int) -> None:
        """Let go, in a forked child, of all that belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        processes.die_with_parent(server_pid)
        # What torch made as it loaded is not a rank's to finalise as it leaves. One release has a directory among it;
        # the rest, its operator libraries, took a third of a short case.
        for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # noqa: SLF001 - no public list
            finalizer.atexit = False
        self.control.close()
        os.close(self.wakeup)

    def reap(self) -> bool:
        """Collect every ended child, adopted orphans too, and tell the parent of those it knows.

        Return whether a child is left. A descendant has a living parent or is adopted, so that without a child
        there is none, where orphans are adopted.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self.pids:
                self.pids.discard(pid)
                with contextlib.suppress(OSError):  # The parent may be gone; the loop sees that next.
                    self.control.send({"op": "exited", "pid": pid, "status": status})

    def kill_all(self) -> list[int]:
        """Kill all descendants until none is left; return those that SIGKILL did not end in time."""
        deadline = time.monotonic() + _KILL_S
        while True:
            if not self.reap():
                return []
            left = processes.descendants(os.getpid())
            if time.monotonic() > deadline:
                return left
            for pid in left:
                processes.kill(pid, signal.SIGKILL)
            select.select([self.wakeup], [], [], 0.02)
            with contextlib.suppress(BlockingIOError):
                os.read(self.wakeup, 4096)


def become(task: Message, fd: int, start_method: str) -> NoReturn:
    """Turn this forked child into the process of a task: here, or in a new interpreter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir(task["cwd"])
    stdin = os.open(os.devnull, os.O_RDONLY)
    output = os.open(task["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(stdin, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(task["env"])
    if start_method == "spawn":
        os.set_inheritable(fd, True)
        os.environ["PYTHONHASHSEED"] = str(task["hash_seed"])
        command = [sys.executable, "-m", "canishard.launch.rank", str(fd), json.dumps(task)]
        os.execve(sys.executable, command, dict(os.environ))  # noqa: S606 - our own module
    rank: Any = importlib.import_module("canishard.launch.rank")
    rank.run_and_exit(task, Channel(socket.socket(fileno=fd)))
    raise AssertionError  # It never returns.


def main() -> None:
    """Serve the parent at the other end of the socket whose descriptor is the first argument."""
    fd, start_method, directory = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    control = Channel(socket.socket(fileno=fd))
    processes.extend_path()
    processes.become_subreaper()
    server = Server(control, start_method)
    try:
        control.send(load(sys.argv[4:]) if start_method == "fork" else {"op": "ready", "unsafe": ""})
        server.serve()
    finally:
        server.kill_all()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
