"""Run one stage of a case: start its ranks, own the clock, collect from all of them, leave nothing behind.

Standard library only. The phases of a rank are reported as they begin; a rank that has reported is held
until all have, since a peer that is still connecting would see its exit as a reset.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from canishard.launch import processes, stretches
from canishard.launch.channel import Channel, Message
from canishard.launch.client import Server, ServerLost
from canishard.launch.judge import RankState, Run
from canishard.launch.outcome import Case
from canishard.launch.verdict import Rules, innermost

START_S = 180.0
"""Seconds for all ranks to reach their first line; a spawned one imports torch before it."""
GRACE_S = 10.0
"""Seconds at most that peers get after a rank has failed."""
QUIET_S = 1.0
"""Peers that have not used the CPU for so long are waiting for the failed rank; the grace ends."""
TEARDOWN_S = 15.0
STACKS_S = 3.0
OUTPUT_TAIL = 4_000
_TICK_S = 0.1


@dataclass(frozen=True)
class Where:
    """What ranks run on."""

    backend: str = "gloo"
    device: str = "cpu"
    backend_module: str = ""


class Stage:
    """The ranks of one stage, from their start to their end."""

    def __init__(
        self, server: Server, case: Case, index: int, *, where: Where, directory: Path, rules: Rules
    ) -> None:
        self.server = server
        self.case = case
        self.where = where
        self.name, self.world_size, self.process_group = case.stages[index]
        self.directory = directory
        self.rules = rules
        self.private = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=server.directory))
        self.ranks = [RankState(rank, stage=self.name) for rank in range(self.world_size)]
        self.run = Run(self.ranks)
        self.channels: list[Channel] = []
        self.selector = selectors.DefaultSelector()
        self.request = 0
        self._quiet: dict[int, tuple[int, float]] = {}

    def execute(self) -> Run:
        """Run the stage to its end. Raises ServerLost when the server dies in between."""
        killed_before = processes.out_of_memory_kills()
        began = time.monotonic()
        try:
            self.start()
            self.wait_for_reports()
            reported = time.monotonic()
            self.release()
            left = time.monotonic()
            self.end()
            self.run.out_of_memory = processes.out_of_memory_kills() > killed_before
            self.collect_output()
        except BaseException:
            self.abandon()
            raise
        finally:
            shutil.rmtree(self.private, ignore_errors=True)
        self.run.spent = stretches.of_stage(self.ranks, began, reported, left, time.monotonic())
        return self.run

    # -- start ----------------------------------------------------------------------------------------------

    def task(self, rank: int) -> Message:
        """Describe what one rank is to do, and make the one folder that it calls its own."""
        home = self.private / f"rank{rank}"
        home.mkdir()
        return {
            "task": "rank",
            "rank": rank,
            "world_size": self.world_size,
            "backend": self.where.backend,
            "backend_module": self.where.backend_module,
            "device": self.where.device,
            "process_group": self.process_group,
            "rendezvous": str(self.private / "rendezvous"),
            "module": self.case.module,
            "function": self.case.function,
            "params": self.case.params,
            "needs": self.case.needs,
            "stage": self.name,
            "directory": str(self.directory),
            "cwd": str(home),
            "output": str(self.output(rank)),
            "stacks": str(self.stacks(rank)),
            "hash_seed": 1000 + rank,
            "env": {
                "HOME": str(home),
                "TMPDIR": str(home),
                "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(self.world_size),
            },
        }

    def output(self, rank: int) -> Path:
        """Return the file of what a rank prints."""
        return self.private / f"rank{rank}.output"

    def stacks(self, rank: int) -> Path:
        """Return the file of a rank's stacks."""
        return self.private / f"rank{rank}.stacks"

    def start(self) -> None:
        """Have the server start all ranks, each with a channel of its own."""
        ends = [socket.socketpair() for _ in self.ranks]
        self.channels = [Channel(parent) for parent, _ in ends]
        for state, channel in zip(self.ranks, self.channels, strict=True):
            self.selector.register(channel, selectors.EVENT_READ, state)
        self.selector.register(self.server.channel, selectors.EVENT_READ, None)
        tasks = [self.task(state.rank) for state in self.ranks]
        self.request = self.server.start(tasks, tuple(child.fileno() for _, child in ends))
        for _, child in ends:
            child.close()

    # -- watch ----------------------------------------------------------------------------------------------

    def pump(self, timeout_s: float) -> None:
        """Take in what ranks and server say within the timeout."""
        for key, _ in self.selector.select(max(0.0, timeout_s)):
            state: RankState | None = key.data
            if state is None:
                received = self.server.channel.receive()
                if received is None:
                    raise ServerLost(self.server.last_words())
                for message in received:
                    self.from_server(message)
                continue
            messages = self.channels[state.rank].receive()
            if messages is None:
                self.selector.unregister(key.fileobj)
            for message in messages or []:
                self.from_rank(state, message)

    def from_rank(self, state: RankState, message: Message) -> None:
        """Note a phase or a report."""
        if message["op"] == "phase":
            state.phase = message["phase"]
            state.began[state.phase] = message["at"]
        else:
            state.report = message
            if message["error"]:
                state.failed_at = message["at"]
            else:
                state.phase = "report"

    def from_server(self, message: Message) -> None:
        """Note which pids the ranks have, and how they ended."""
        if message["op"] == "started" and message["request"] == self.request:
            for state, pid in zip(self.ranks, message["pids"], strict=True):
                state.pid = pid
        elif message["op"] == "exited":
            for state in self.ranks:
                if state.pid == message["pid"]:
                    state.exit_status = message["status"]
                    if state.report is None and state.failed_at is None:
                        state.failed_at = time.monotonic()

    def wait_for_reports(self) -> None:
        """Wait until every rank is over, the deadline has passed, or the grace after a failure has ended."""
        deadline = time.monotonic() + START_S
        started, grace = False, None
        while not all(state.is_over for state in self.ranks):
            now = time.monotonic()
            if not started and all(state.phase not in {"", "start"} or state.is_over for state in self.ranks):
                started, deadline = True, now + self.case.deadline_s
            if grace is None and self.has_failed():
                grace = now + GRACE_S
            if now >= deadline:
                self.run.deadline_passed = True
                break
            if grace is not None and (now >= grace or self.peers_wait(now)):
                break
            self.pump(min(_TICK_S, deadline - now))
        if not all(state.is_over for state in self.ranks):
            self.pump(0.0)
            self.dump_stacks()

    def has_failed(self) -> bool:
        """Tell whether a rank has failed by itself: a lost peer is a symptom, and the clock goes on."""
        return any(
            state.exit_status is not None or state.seen().has_failed(self.rules) for state in self.ranks
        )

    def peers_wait(self, now: float) -> bool:
        """Tell whether all unfinished ranks sleep and have used no CPU time for ``QUIET_S``."""
        for state in self.ranks:
            if state.is_over:
                continue
            letter, ticks = processes.cpu_ticks(state.pid)
            before = self._quiet.get(state.rank)
            if letter not in {"S", "T"} or before is None or before[0] != ticks:
                self._quiet[state.rank] = (ticks, now)
        since = [self._quiet[state.rank][1] for state in self.ranks if not state.is_over]
        return bool(since) and now - max(since) >= QUIET_S

    def dump_stacks(self) -> None:
        """Have every live rank write the stacks of all its threads, those that wait to be released too."""
        late = [state for state in self.ranks if state.exit_status is None and state.pid]
        for state in late:
            state.state = processes.state(state.pid)
        self.signal(late, processes.STACKS_SIGNAL)
        self.signal([state for state in late if state.state.startswith("T")], signal.SIGCONT)
        files = {state.rank: self.stacks(state.rank) for state in late}
        self.until(lambda: all(_ends_with_line(files[state.rank]) for state in late), STACKS_S)
        for state in late:
            with contextlib.suppress(OSError):
                state.stacks = files[state.rank].read_text(errors="backslashreplace")[:20_000]

    def signal(self, states: list[RankState], number: int) -> None:
        """Have the server send a signal to some ranks: it alone knows that their pids are still theirs."""
        if states:
            self.server.send({"op": "signal", "pids": [state.pid for state in states], "signal": int(number)})

    def until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Take in messages until the condition holds or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not condition() and (left := deadline - time.monotonic()) > 0:
            self.pump(min(_TICK_S, left))

    # -- end ------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Release the ranks that have reported, where all have, and see them leave."""
        if not all(state.report for state in self.ranks):
            return
        for state, channel in zip(self.ranks, self.channels, strict=True):
            if state.exit_status is None:
                with contextlib.suppress(OSError):  # It died while it was held; its exit says how.
                    channel.send({"op": "release"})
        self.until(lambda: all(state.exit_status is not None for state in self.ranks), TEARDOWN_S)
        late = [state for state in self.ranks if state.exit_status is None]
        if late:
            self.dump_stacks()
        for state in late:
            where = innermost(state.stacks) or "an unknown place"
            self.run.notes.append(
                f"rank {state.rank} had not left {TEARDOWN_S:.0f} s after its release: in {where}"
            )

    def end(self) -> None:
        """Kill what is left of the case, descendants in sessions of their own too, and close all channels."""
        for state in self.ranks:
            state.killed = state.exit_status is None
        for channel in self.channels:
            channel.close()
        self.selector.close()
        self.server.send({"op": "kill_all"})
        for message in self.server.messages(time.monotonic() + 30.0):
            self.from_server(message)
            if message["op"] == "killed":
                if message["stuck"]:
                    self.run.fault = f"processes that SIGKILL does not end: {message['stuck']}"
                return
        self.run.fault = "the server did not answer within 30 s"

    def abandon(self) -> None:
        """Kill what is left after a failure of ours or an interrupt; a server that is gone has nothing left."""
        with contextlib.suppress(ServerLost):
            self.end()

    def collect_output(self) -> None:
        """Keep the tail of what each rank printed."""
        for state in self.ranks:
            state.output = _tail(self.output(state.rank))


def _tail(path: Path) -> str:
    """Return the end of a file as text, whatever bytes it holds."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - OUTPUT_TAIL))
            return file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def _ends_with_line(path: Path) -> bool:
    """Tell whether a stack dump is there and complete to the end of a line."""
    try:
        return path.read_bytes().endswith(b"\n")
    except OSError:
        return False
