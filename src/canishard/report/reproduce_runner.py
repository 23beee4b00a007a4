# ruff: noqa: T201 - it prints: what it saw is its output
"""The end of every reproduction script: start the ranks, watch them, and say in one word what they did.

``reproduce`` puts the text of this module, of ``launch.verdict`` and a check's into one script. It does as
``launch.watch``; nothing here is used by canishard itself.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canishard.launch.verdict import Rank, Rules, decide, first_line
from canishard.report.reproduce_rank import START_S, run_rank

if TYPE_CHECKING:  # The script has them: canishard does not import torch here.
    import torch
    import torch.distributed as dist

    from canishard.check import Stage, find


# Regular expressions of errors; a script has those of matrix/refusals.toml.
REFUSALS: Sequence[str] = ()
LOST_PEERS: Sequence[str] = ()
MACHINE_FAULTS: Sequence[str] = ()
RULES = Rules(REFUSALS, LOST_PEERS, MACHINE_FAULTS)
GRACE_S, LEAVE_S = 10.0, 10.0
"""Seconds to follow a rank that failed, and to leave once released."""


class Worker:
    """The process of a rank."""

    def __init__(self, function: Callable[..., None], task: dict[str, Any]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.seen = Rank(task["rank"])
        self.stacks = Path(task["stacks"])
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=run_rank, args=(theirs, function, task))
        self.process.start()
        theirs.close()

    def listen(self) -> None:
        """Take in what it said, and whether it has ended."""
        code = self.process.exitcode
        with contextlib.suppress(EOFError, OSError):  # It has ended; its exit code says how.
            while self.pipe.poll():
                vars(self.seen).update(self.pipe.recv())
                if self.seen.error and self.seen.failed_at is None:
                    self.seen.failed_at = time.monotonic()
        if code is not None and (code or not self.seen.report):
            self.seen.died = exit_words(code)
            self.seen.failed_at = self.seen.failed_at or time.monotonic()

    def leave(self, *, release: bool) -> str:
        """End the process; return what went wrong on the way out."""
        if release:
            with contextlib.suppress(OSError):  # It has ended; its exit code says how.
                self.pipe.send("leave")
            self.process.join(LEAVE_S)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        if not release or code == 0:
            return ""
        return f"had not left {LEAVE_S:.0f} s after its release" if code is None else exit_words(code)


def exit_words(code: int) -> str:
    """Return how a process ended, in words."""
    if code < 0:
        names = {int(item): item.name for item in signal.Signals}
        return f"signal {names.get(-code, -code)}"
    return f"code {code}" if code else "code 0 without a report"


def watch(workers: Sequence[Worker], deadline_s: float, others: Any) -> None:
    """Wait until all ranks are over, the deadline has passed, or the grace after a failure has."""
    limit, started, failed = time.monotonic() + START_S, False, False
    while time.monotonic() < limit:
        waiting = [worker for worker in workers if not (worker.seen.report or worker.seen.died)]
        if not waiting:
            break
        wait([end for worker in waiting for end in (worker.pipe, worker.process.sentinel)], timeout=0.2)
        for worker in workers:
            worker.listen()
        if not started and all(worker.seen.phase != "start" for worker in waiting):
            started, limit = True, time.monotonic() + deadline_s + 1.0  # Stacks are written before that.
        if not failed and (
            any(worker.seen.has_failed(RULES) for worker in workers) or (others and others.failed())
        ):
            failed, limit = True, min(limit, time.monotonic() + GRACE_S)
    for worker in workers:
        if not worker.seen.report and worker.stacks.exists():
            worker.seen.stacks = worker.stacks.read_text(encoding="utf-8", errors="replace")


class Others:
    """Under torchrun each of its processes watches one rank; this is how they tell each other."""

    def __init__(self, deadline_s: float) -> None:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        is_master = self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        timeout = timedelta(seconds=2 * START_S + deadline_s)
        store = dist.TCPStore(host, port, is_master=is_master, timeout=timeout)
        self.store = dist.PrefixStore("reproduction", store)

    def failed(self) -> bool:
        """Tell whether the rank of another process has failed."""
        return bool(self.store.add("failed", 0))

    def folder(self) -> str:
        """Return a folder for all of them."""
        if self.rank == 0:
            self.store.set("folder", tempfile.mkdtemp())
        return str(self.store.get("folder").decode())

    def gathered(self, own: Rank) -> list[Rank]:
        """Return what is known of every rank."""
        self.store.add("failed", int(own.has_failed(RULES)))
        self.store.set(f"rank{own.rank}", json.dumps(asdict(own)))
        return [Rank(**json.loads(self.store.get(f"rank{rank}"))) for rank in range(self.size)]

    def leave(self) -> None:
        """Leave together, the first rank last: it prints, and torchrun kills the others of one that fails."""
        if self.rank:
            self.store.get("said")
            self.store.add("left", 1)
            return
        self.store.set("said", "1")
        limit = time.monotonic() + LEAVE_S
        while self.store.add("left", 0) < self.size - 1 and time.monotonic() < limit:
            time.sleep(0.05)


def run_stage(
    function: Callable[..., None], tasks: Sequence[dict[str, Any]], others: Others | None
) -> list[Rank]:
    """Run one stage; return what is known of every rank."""
    workers: list[Worker] = []
    release = False
    try:
        workers.extend(Worker(function, task) for task in tasks)
        watch(workers, tasks[0]["deadline_s"], others)
        ranks = others.gathered(workers[0].seen) if others else [worker.seen for worker in workers]
        release = all(rank.report and not rank.died for rank in ranks)
    finally:
        late = [(worker.seen.rank, worker.leave(release=release)) for worker in workers]
    for rank, words in late:
        if words:
            print(f"rank {rank}: in teardown, which decides nothing: {words}")
    return ranks


def run_stages(
    function: Callable[..., None],
    declared: dict[str, Any],
    params: dict[str, Any],
    options: argparse.Namespace,
    others: Others | None,
) -> tuple[str, str]:
    """Run the stages until one fails; return the last one's status."""
    folder = Path(others.folder() if others else tempfile.mkdtemp())
    (folder / "case").mkdir(exist_ok=True)  # Shared by the ranks and the stages.
    common = {
        **vars(options),
        "params": params,
        "needs": needs_of(declared),
        "directory": str(folder / "case"),
    }
    found = decide([], RULES)
    try:
        for stage in declared.get("stages", [Stage("run")]):
            size = others.size if others else stage.world_size or options.ranks
            own = [others.rank] if others else range(size)
            tasks = [{**common, **task_of(stage, rank, size, folder)} for rank in own]
            ranks = run_stage(function, tasks, others)
            show_ranks(stage.name, ranks)
            found = decide(ranks, RULES)
            if found.status != "pass":
                break
    finally:
        if not others or others.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    return found.status, found.deviation or first_line(found.message)


def task_of(stage: Stage, rank: int, world_size: int, folder: Path) -> dict[str, Any]:
    """Return what one rank has to know of a stage."""
    return {
        "stage": stage.name,
        "process_group": stage.process_group,
        "rank": rank,
        "local_rank": rank,
        "world_size": world_size,
        "rendezvous": str(folder / f"{stage.name}.rendezvous"),
        "stacks": str(folder / f"{stage.name}.stacks{rank}"),
    }


def show_ranks(stage: str, ranks: Sequence[Rank]) -> None:
    """Print what each rank said and how it ended."""
    for rank in ranks:
        for text in told(rank):
            lines = text.rstrip().replace("\n", "\n    ")
            print(f"rank {rank.rank} ({stage}): {lines}")


def told(rank: Rank) -> Iterator[str]:
    """Yield what is known of a rank, a text an item."""
    if rank.died:
        yield f"{rank.died} in phase {rank.phase}"
    elif not rank.report:
        yield f"no report, in phase {rank.phase}\n{rank.stacks}"
    elif rank.error:
        yield rank.error["traceback"]
    for mismatch in rank.mismatches:
        named = ", ".join(mismatch["deviations"]) or "no known deviation"
        most = mismatch["max_abs_diff"]
        yield (
            f"{mismatch['label']}: {named}\ngot    {mismatch['got']}\nwanted {mismatch['wanted']}\n"
            f"{mismatch['differing']} of {mismatch['of']} differ"
            + (f", by {most:.6g} at most" if most else "")
        )
    for name, value in rank.report.get("measurements", {}).items():
        yield f"{name} is {value:.6g}"
    yield from rank.report.get("notes", ())
    if rank.report.get("compared") and not rank.mismatches and not rank.error:
        yield f"{rank.report['compared']} compared, all as expected"


# -- the command ----------------------------------------------------------------------------------------------


def needs_of(declared: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the names that the check asks for: each the first of several that exists."""
    return [(need,) if isinstance(need, str) else tuple(need) for need in declared.get("needs", ())]


def hindered(
    declared: dict[str, Any], options: argparse.Namespace, others: Others | None
) -> tuple[str, str] | None:
    """Return a status and why, where no rank is to be started; say which older names are used."""
    absent = [name for name in declared.get("packages", ()) if importlib.util.find_spec(name) is None]
    if absent:
        return "not_run", f"not installed: {', '.join(absent)}"
    if not getattr(dist, f"is_{options.backend}_available", lambda: True)():
        return "not_run", f"this build of torch has no {options.backend}"
    if options.device != "cpu" and getattr(torch, options.device).device_count() == 0:
        return "not_run", f"no {options.device} device"
    if others and len(declared.get("stages", ())) > 1:
        return "not_run", "it runs in several stages, each in new processes: use python, not torchrun"
    if others and os.environ["LOCAL_WORLD_SIZE"] != os.environ["WORLD_SIZE"]:
        return "not_run", "all ranks have to be on one machine"
    missing = []
    for need in needs_of(declared):
        try:
            name, _ = find(need)
        except LookupError:
            older = f" (nor {', '.join(need[1:])})" if need[1:] else ""
            missing.append(f"{need[0]} does not exist{older}")
            continue
        if name != need[0]:
            print(f"{need[0]} does not exist: {name} is used")
    return ("missing", "; ".join(missing)) if missing else None


def parsed(function: Callable[..., None], rows: dict[str, Any]) -> Any:
    """Read the command line; a bad one ends the program, with a line that says what is allowed."""
    declared = vars(function)["declared"]
    parser = argparse.ArgumentParser(description=function.__doc__, allow_abbrev=False)
    parser.add_argument("--row", metavar="ID", help="the row to run (default: the first)")
    parser.add_argument("--list", action="store_true", help="list the rows and end")
    parser.add_argument("--ranks", type=int, metavar="N", help="number of ranks, without torchrun")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, xpu, ...")
    seconds = declared.get("deadline_s", 30.0)
    parser.add_argument("--deadline-s", type=float, default=seconds, help="seconds until it counts as a hang")
    options = parser.parse_args()
    if options.list:
        print("\n".join(rows))
        sys.exit(0)
    options.row = options.row or next(iter(rows))
    if options.row not in rows:
        near = " or ".join(difflib.get_close_matches(options.row, rows, cutoff=0.5))
        parser.error(f"no row {options.row}; {f'did you mean {near}? ' if near else ''}--list lists them")
    options.ranks = options.ranks or rows[options.row][0][0]
    return options


def main(function: Callable[..., None], rows: dict[str, Any]) -> int:
    """Run one of the check's rows, each with its numbers of ranks, parameters and needed names; return 0 for a pass."""
    options = parsed(function, rows)
    _, params, needs = rows[options.row]
    declared = {**vars(function)["declared"], "needs": needs}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that the ranks are ended too.
    others = Others(options.deadline_s) if "TORCHELASTIC_RUN_ID" in os.environ else None
    with contextlib.redirect_stdout(None) if others and others.rank else contextlib.nullcontext():
        ranks = others.size if others else options.ranks
        print(
            f"{options.row}, torch {torch.__version__}, {options.backend} on {options.device}, {ranks} ranks"
        )
        status, words = hindered(declared, options, others) or run_stages(
            function, declared, params, options, others
        )
        print(f"observed: {status}" + (f" ({words})" if words else ""), flush=True)
    if others:
        others.leave()
    return 0 if status == "pass" else 1
