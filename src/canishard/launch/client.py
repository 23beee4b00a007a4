"""The parent's side of a server: start it, ask it, end it.

Standard library only. A server that does not come up, or that is gone, is ``ServerLost``: our fault or the
machine's, never a verdict about torch.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from canishard.launch import processes
from canishard.launch.channel import Channel, Message

READY_S = 300.0
"""Seconds for a server to import torch: 5 on a quiet machine, 30 on a busy one without bytecode."""

PASSED_ON = (
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "SYSTEMROOT",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "TORCH_GLOO_LAZY_INIT",
)  # fmt: skip
"""What ranks inherit of the caller's environment; everything else is ours, so that a result can be repeated."""


class ServerLost(Exception):
    """The server did not come up, or ended before it was told to."""


_PLACES = frozenset({"PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT", "CUDA_HOME", "PYTHONPATH",
                     processes.MARKER})  # fmt: skip
"""What says where things lie on one machine, and is no fact about a measurement."""


def recorded_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a rank that a record keeps: those that can change what torch does.

    Of the libraries that are loaded before all others it is the names, not the places.
    """
    found = rank_environment(caller, run="")
    if preloaded := found.pop("LD_PRELOAD", "").replace(":", " ").split():
        found["LD_PRELOAD"] = " ".join(Path(library).name for library in preloaded)
    return {name: value for name, value in sorted(found.items()) if name not in _PLACES}


def rank_environment(caller: Mapping[str, str], run: str) -> dict[str, str]:
    """Return the environment of a server and its ranks."""
    inherited = {name: caller[name] for name in PASSED_ON if name in caller}
    fixed = {
        # The same texts are read and written in the same way whoever calls.
        "LANG": "C.UTF-8",
        # One thread a rank: no oversubscription, and a server that is single-threaded after importing torch.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(_python_path(caller)),
        processes.MARKER: run,
    }
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    return {**loopback, **inherited, **fixed}


def _python_path(caller: Mapping[str, str]) -> Iterator[str]:
    """Yield what a child needs to import this very canishard and what the caller put on the path."""
    yield str(Path(__file__).resolve().parents[2])
    for entry in filter(None, caller.get("PYTHONPATH", "").split(os.pathsep)):
        yield str(Path(entry).resolve())


class Server:
    """One server process and its directory, which goes when the server goes."""

    def __init__(
        self, start_method: str, warm: tuple[str, ...] = (), path: Sequence[str] = (), hash_seed: int = 0
    ) -> None:
        self.start_method = start_method
        self.run = uuid.uuid4().hex
        self.directory = Path(tempfile.mkdtemp(prefix="canishard-"))
        self.unsafe = ""
        self.output = self.directory / "server.out"
        parent_end, child_end = socket.socketpair()
        environment = {**rank_environment(os.environ, self.run), "PYTHONHASHSEED": str(hash_seed)}
        if path:
            environment[processes.PATH] = os.pathsep.join(path)
        command = [sys.executable, "-m", "canishard.launch.server", str(child_end.fileno()), start_method,
                   str(self.directory), *warm]  # fmt: skip
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                pass_fds=[child_end.fileno()],
                env=environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        child_end.close()
        self.channel = Channel(parent_end)
        self.requests = 0

    def start(self, tasks: list[Message], fds: tuple[int, ...]) -> int:
        """Have a process started for each task, each with a descriptor; return the request's number."""
        self.requests += 1
        self.send({"op": "start", "request": self.requests, "tasks": tasks}, fds)
        return self.requests

    def wait_until_ready(self) -> None:
        """Wait until the server has loaded torch. Raises ServerLost with its last words when it cannot."""
        deadline = time.monotonic() + READY_S
        for message in self.messages(deadline):
            if message["op"] == "ready":
                if "failed" in message:
                    msg = f"torch cannot be imported: {message['failed']}"
                    raise ServerLost(msg)
                self.unsafe = message["unsafe"]
                return
        msg = f"the server was not ready within {READY_S:.0f} s"
        raise ServerLost(msg)

    def messages(self, deadline: float) -> Iterator[Message]:
        """Yield what the server says until the deadline on the monotonic clock. Raises ServerLost when it is gone."""
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.channel], [], [], left)[0]:
                return
            received = self.channel.receive()
            if received is None:
                raise ServerLost(self.last_words())
            yield from received

    def last_words(self) -> str:
        """Say how the server ended, with the last line it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        with contextlib.suppress(OSError):
            lines = self.output.read_text(errors="backslashreplace").strip().splitlines()
            return f"the server ended with code {self.process.returncode}: {(lines or ['no output'])[-1]}"
        return f"the server ended with code {self.process.returncode}"

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send one request. Raises ServerLost when the server is gone."""
        try:
            self.channel.send(message, fds)
        except OSError as error:
            raise ServerLost(self.last_words()) from error

    def ask(self, task: str, payload: dict[str, Any], timeout_s: float) -> Any:
        """Have a fresh child answer ``collect`` or ``describe``. Raises ServerLost with its last line of output."""
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            return self._ask(Path(directory), task, payload, time.monotonic() + timeout_s)

    def _ask(self, directory: Path, task: str, payload: dict[str, Any], deadline: float) -> Any:
        output = directory / "output"
        parent_end, child_end = socket.socketpair()
        full = {
            "task": task,
            "cwd": str(directory),
            "output": str(output),
            "stacks": str(directory / "stacks"),
            "env": {},
            "hash_seed": 0,
            **payload,
        }
        with contextlib.closing(Channel(parent_end)) as channel:
            self.start([full], (child_end.fileno(),))
            child_end.close()
            while select.select([channel], [], [], max(0.0, deadline - time.monotonic()))[0]:
                received = channel.receive()
                if received is None:
                    break
                if received:
                    return received[-1]["answer"]
        lines = output.read_text(errors="backslashreplace").strip().splitlines() if output.exists() else []
        msg = f"{task} gave no answer: {(lines or ['no output'])[-1]}"
        raise ServerLost(msg)

    def is_alive(self) -> bool:
        """Tell whether the server's process runs."""
        return self.process.poll() is None

    def close(self) -> None:
        """End the server and everything below it; sweep what a killed server left; remove its directory."""
        self.channel.close()
        try:
            self.process.wait(30.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        processes.sweep(self.run)
        shutil.rmtree(self.directory, ignore_errors=True)
