"""Run cases: choose how ranks are started, keep the servers, repeat what did not pass, fold the attempts.

Standard library and canishard's own words only; never imports torch.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from canishard.catalogue import ids
from canishard.errors import ConfigurationError, InfraError
from canishard.launch import stretches
from canishard.launch.client import Server, ServerLost
from canishard.launch.judge import judge, teardown_notes
from canishard.launch.outcome import GRAVE, NOT_RETRIED, Attempt, Case, Kind, Outcome, Status
from canishard.launch.verdict import Rules
from canishard.launch.watch import Stage, Where

START_METHODS = ("auto", "fork", "spawn")
CHECK_MODULES = ("canishard.checks",)
ASK_S = 180.0
SAMPLE = 20
"""How many cases are run under both servers whatever they do, chosen by their names' hash."""
SPAWNED = 3
"""How many of the sample, each of another family, are also spawned: an import of torch a rank is what one costs."""

_KNOWN_BACKENDS = frozenset({"gloo", "nccl", "mpi", "ucc", "xccl"})


@dataclass(frozen=True)
class OwnChecks:
    """A project's own checks, and where the children find them."""

    modules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What was said, and the modules that it stands for, each with its file or an empty text."""
    path: Sequence[str] = ()
    """The folders from which they, and what they need, are imported."""

    @property
    def names(self) -> list[str]:
        """Return the modules' names."""
        return list(dict.fromkeys(name for named in self.modules.values() for name in named))


class Launcher:
    """Runs cases on one backend and device; a context manager, since it keeps processes.

    Raises ServerLost on entering when torch cannot be imported.
    """

    def __init__(
        self,
        where: Where,
        rules: Rules,
        *,
        start_method: str = "auto",
        modules: Sequence[str] = CHECK_MODULES,
        own: OwnChecks | None = None,
        baseline: Mapping[tuple[str, int], Kind] | None = None,
    ) -> None:
        self.where = where
        self.rules = rules
        self.modules = list(modules)
        self.own = own or OwnChecks()
        self.baseline = dict(baseline or {})
        self.wanted_start_method = start_method
        self.start_method = start_method
        self.fallback = ""
        """Why ranks are spawned although ``auto`` would rather fork them."""
        self.sampled: frozenset[tuple[str, int]] = frozenset()
        self.spawned: frozenset[tuple[str, int]] = frozenset()
        self._spent: dict[str, float] = {}
        self._servers: dict[str, Server] = {}
        self._description: dict[str, Any] = {}

    def __enter__(self) -> Launcher:  # noqa: PYI034 - typing.Self is 3.11's
        """Start the first server and settle how ranks are started."""
        try:
            self._settle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all servers and everything below them."""
        self.close()

    def _settle(self) -> None:
        if self.wanted_start_method != "spawn":
            server = self._server("first", "fork")
            if not server.unsafe:
                self.start_method = "fork"
                return
            if self.wanted_start_method == "fork":
                msg = f"--start-method fork is not safe here: {server.unsafe}"
                raise ServerLost(msg)
            self.fallback = server.unsafe
            self._drop("first")
        self.start_method = "spawn"
        self._server("first", "spawn")

    def _server(self, slot: str, start_method: str) -> Server:
        """Return the live server of a slot (first, second, spawn), started when it is not there.

        The second differs from the first in what a rank inherits by forking: the seed of its hashes, and modules of checks,
        none of which it has imported. What a case owes to those shows as another outcome there.
        """
        if slot in self._servers and not self._servers[slot].is_alive():
            self._drop(slot)
        if slot not in self._servers:
            began = time.monotonic()
            warm, seed = ((), 1) if slot == "second" else ((*self.modules, *self.own.names), 0)
            server = Server(start_method, warm, self.own.path, seed)
            try:
                server.wait_until_ready()
            except BaseException:
                server.close()  # Else it would stand for one that is ready.
                raise
            self._servers[slot] = server
            stretches.add(self._spent, {stretches.SERVER: time.monotonic() - began})
        return self._servers[slot]

    def _drop(self, slot: str) -> None:
        self._servers.pop(slot).close()

    def close(self) -> None:
        """End all servers."""
        for slot in list(self._servers):
            self._drop(slot)

    def take_spent(self) -> dict[str, float]:
        """Return the seconds that went into each stretch since this was last asked: see ``stretches``."""
        spent, self._spent = self._spent, {}
        return spent

    # -- questions ------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return what is installed, as a child with torch loaded says."""
        if not self._description:
            self._description = self._server("first", self.start_method).ask("describe", {}, ASK_S)
        return self._description

    def cases(self) -> list[Case]:
        """Return every case that the check modules declare, in their order.

        Raises ConfigurationError where a project's own checks are at fault, InfraError where they need what is not
        here.
        """
        asked = {"modules": self.modules, "own": self.own.modules}
        answer = self._server("first", self.start_method).ask("collect", asked, ASK_S)
        if "fault" in answer:
            raise (InfraError if answer["absent"] else ConfigurationError)(answer["fault"])
        return [
            Case(**{**item, "stages": [(name, size, group) for name, size, group in item["stages"]]})
            for item in answer["cases"]
        ]

    def choose_sample(self, cases: Iterable[Case], size: int = SAMPLE) -> None:
        """Settle which cases are confirmed whatever they do: the same ones in every run.

        Of an id the smallest world size: what forking hands on does not depend on the number of ranks.
        """
        smallest: dict[str, int] = {}
        for case in cases:
            smallest[case.id] = min(case.world_size, smallest.get(case.id, case.world_size))
        chosen = sorted(smallest.items(), key=_hash)[:size]
        of_family: dict[str, tuple[str, int]] = {}
        for key in chosen:
            of_family.setdefault(ids.family(key[0]), key)
        self.sampled = frozenset(chosen)
        self.spawned = frozenset(list(of_family.values())[:SPAWNED])

    def not_run(self, case: Case) -> str:
        """Return why a case cannot be run here, in words; empty when it can."""
        description = self.describe()
        if case.absent_packages:
            return f"not installed: {', '.join(case.absent_packages)}"
        if not self.where.backend_module:
            for name in (part.rpartition(":")[2] for part in self.where.backend.split(",")):
                if name in _KNOWN_BACKENDS and name not in description["backends"]:
                    return f"this build of torch has no {name}"
        if self.where.device == "cuda":
            count = description["devices"]["cuda"]
            if count == 0:
                return "no CUDA device"
            most = max(size for _, size, _ in case.stages)
            if "nccl" in self.where.backend and most > count:
                return f"nccl needs a device a rank: {count} here, {most} ranks"
        return ""

    # -- running --------------------------------------------------------------------------------------------

    def run(self, case: Case, *, confirm: bool = True) -> Outcome:
        """Run a case to a verdict that stands: see ARCHITECTURE.md for what is repeated, and how.

        Without ``confirm`` it is run once, unless it failed for our own or the machine's reasons.
        """
        if reason := self.not_run(case):
            return _outcome(case, Status.NOT_RUN, reason)
        if case.missing:
            return _outcome(case, Status.MISSING, case.missing)
        attempts = [self._attempt(case, "first", self.start_method)]
        status = attempts[0].status
        if status is Status.INFRA:
            attempts = [self._attempt(case, "first", self.start_method)]  # Once more with a new server.
            status = attempts[0].status
        if not confirm:
            return fold(case, attempts)
        is_sampled = self.start_method == "fork" and case.key in self.sampled
        if status is not Status.INFRA and (status not in NOT_RETRIED or is_sampled):
            attempts.append(self._attempt(case, "second", self.start_method))
        if self.start_method == "fork" and self._needs_spawn(case, attempts):
            attempts.append(self._attempt(case, "spawn", "spawn"))
        return fold(case, attempts)

    def _needs_spawn(self, case: Case, attempts: list[Attempt]) -> bool:
        kinds = {attempt.kind for attempt in attempts}
        statuses = {kind.status for kind in kinds}
        if Status.INFRA in statuses:
            return False
        before = self.baseline.get(case.key)
        changed = before is not None and kinds != {before}
        return bool(statuses & GRAVE) or changed or case.key in self.spawned

    def _attempt(self, case: Case, slot: str, start_method: str) -> Attempt:
        """Run all stages of a case once, in fresh processes."""
        try:
            server = self._server(slot, start_method)
            attempt = self._stages(server, case, start_method)
        except (ServerLost, OSError) as error:  # Of the latter, a full disk is the likeliest.
            return Attempt(status=Status.INFRA, start_method=start_method, message=str(error))
        if attempt.status is Status.INFRA:
            self._drop(slot)  # In doubt about ourselves: the next case gets a new server.
        return attempt

    def _stages(self, server: Server, case: Case, start_method: str) -> Attempt:
        verdicts = []
        with tempfile.TemporaryDirectory(
            prefix="case-", dir=server.directory, ignore_cleanup_errors=True
        ) as folder:
            for index in range(len(case.stages)):
                stage = Stage(server, case, index, where=self.where, directory=Path(folder), rules=self.rules)
                run = stage.execute()
                stretches.add(self._spent, run.spent)
                verdict = judge(run, self.rules, start_method)
                verdict.notes.extend([*run.notes, *teardown_notes(run)])
                verdicts.append(verdict)
                if verdict.status is not Status.PASS:
                    break
        last = verdicts[-1]
        last.ranks = [rank for verdict in verdicts for rank in verdict.ranks]
        last.notes = [note for verdict in verdicts for note in verdict.notes]
        return last


def _hash(key: tuple[str, int]) -> str:
    return hashlib.sha256(f"{key[0]} {key[1]}".encode()).hexdigest()


def _outcome(case: Case, status: Status, message: str) -> Outcome:
    return Outcome(
        id=case.id,
        world_size=case.world_size,
        digest=case.digest,
        status=status,
        message=message,
        names=case.names,
    )


def fold(case: Case, attempts: list[Attempt]) -> Outcome:
    """Fold attempts to an outcome: the same kind stands, a mixture is ``flaky`` with its counts.

    Two that are wrong in different ways are a mixture too. An attempt that failed for our or the machine's reasons makes
    the whole ``infra``: it proves nothing.
    """
    counts = Counter(attempt.kind for attempt in attempts)
    shown = attempts[0]
    outcome = _outcome(case, shown.status, shown.message)
    outcome.deviation = shown.deviation
    if infra := next((attempt for attempt in attempts if attempt.status is Status.INFRA), None):
        outcome.status, outcome.deviation, outcome.message = Status.INFRA, "", infra.message
    elif len(counts) > 1:
        tally = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        said = next((attempt.message for attempt in attempts if attempt.message), "")
        outcome.status, outcome.deviation, outcome.message = Status.FLAKY, "", f"{tally}; {said}"
    ranks = shown.ranks
    outcome.measurements = {
        name: value for rank in reversed(ranks) for name, value in rank.measurements.items()
    }
    notes = [note for attempt in attempts for note in attempt.notes]
    notes += [note for rank in ranks for note in rank.notes]
    outcome.notes = list(dict.fromkeys(notes))
    outcome.attempts = attempts
    return outcome
