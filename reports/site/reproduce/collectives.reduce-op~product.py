"""Reduce gives the destination the reduction of all inputs, whichever rank it is.

This is collectives.reduce[op=product], a row of canishard's tables. It needs torch and nothing else:

    python SCRIPT --ranks 2
    torchrun --nproc-per-node 2 SCRIPT

Expected: each rank gets what one process computes. The last line is `observed: pass`, the exit code 0.

Observed, by status, number of ranks and release of torch:

    pass with 2 and 4 ranks: 2.15.0, 2.14.1, 2.13.0, 2.12.1, 2.11.0, 2.10.0, 2.9.1, 2.8.0, 2.7.1, 2.6.0, 2.5.1, 2.4.1
"""


from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import reduce as fold
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist


def check(**declared: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Keep what a check declares for the runner at the end of this file."""

    def keep(function: Callable[..., None]) -> Callable[..., None]:
        vars(function)["declared"] = declared
        return function

    return keep


Reduction = Callable[[torch.Tensor], torch.Tensor]
NUMERIC: dict[str, Reduction] = {
    "sum": lambda stack: stack.sum(0),
    "avg": lambda stack: stack.mean(0),
    "product": lambda stack: stack.prod(0),
    "min": lambda stack: stack.amin(0),
    "max": lambda stack: stack.amax(0),
}
BITWISE: dict[str, Reduction] = {
    "band": lambda stack: fold(torch.bitwise_and, stack),
    "bor": lambda stack: fold(torch.bitwise_or, stack),
    "bxor": lambda stack: fold(torch.bitwise_xor, stack),
}
OPS = {"op": (*NUMERIC, *BITWISE)}


# -- collectives.reduce[op=product] ----------------------------------------------------------------

@check(feature="reduce", params=OPS, needs=["torch.distributed.reduce"], rests_on=["canary.all_reduce"])
def reduce(context: Context, op: str) -> None:
    """Reduce gives the destination the reduction of all inputs, whichever rank it is."""
    stack = stacked_inputs(op, context.world_size)
    for destination in range(context.world_size):
        tensor = stack[context.rank].to(context.device, copy=True)
        dist.reduce(tensor, dst=destination, op=getattr(dist.ReduceOp, op.upper()))
        if context.rank == destination:  # What the other ranks' tensors hold is not promised.
            wrong = wrong_values(op, stack, context.rank)
            context.equal(f"result at rank {destination}", tensor, reduced(op, stack), wrong=wrong)


# -- what it calls ---------------------------------------------------------------------------------

SIZE = 6


def stacked_inputs(op: str, world_size: int, size: int = SIZE) -> torch.Tensor:
    """Return every rank's input, a row each: whole numbers, float32 or for a bitwise op int64."""
    generator = torch.Generator().manual_seed(7)
    stack = torch.randint(1, 100, (world_size, size), generator=generator)
    return stack if op in BITWISE else stack.float()


def reduced(op: str, stack: torch.Tensor) -> torch.Tensor:
    """Reduce the rows of a stack in this process: the oracle."""
    return (NUMERIC | BITWISE)[op](stack)


def wrong_values(op: str, stack: torch.Tensor, rank: int) -> dict[str, torch.Tensor]:
    """Return what a rank would get from each mistake that has a name."""
    other_ops = [*BITWISE, "sum", "product", "min", "max"] if op in BITWISE else [*NUMERIC]
    values = {f"{other} instead of {op}": reduced(other, stack) for other in other_ops if other != op}
    return values | {"unchanged input": stack[rank], "rank 0's value": stack[0]}


# -- comparison ------------------------------------------------------------------------------------

TOLERANCES: Mapping[torch.dtype, tuple[float, float]] = {
    # (rtol, atol). A float32 sum of a few hundred terms in another order differs by some 1e-6; the faults
    # looked for (a factor, a swapped shard, a dropped element) differ by 1e-2 and more.
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-6),
    # Half types keep 8 and 11 bits: one rounding is 4e-3 and 5e-4, and a training step makes several.
    torch.bfloat16: (2e-2, 2e-2),
    torch.float16: (2e-3, 2e-3),
}


class CheckFault(Exception):
    """A check is itself at fault: it compared nothing, or its known wrong value equals the right one."""


@dataclass(frozen=True)
class Stage:
    """One part of a check, run by processes of its own; the stages of a case share its directory.

    ``world_size`` None means the case's own. Without ``process_group`` the stage joins no group.
    """

    name: str
    world_size: int | None = None
    process_group: bool = True


def resolve(dotted: str) -> Any:
    """Import what a dotted name stands for, or raise LookupError when this release does not have it."""
    head, _, name = dotted.rpartition(".")
    # The attribute first: fully_shard of torch 2.4 is a function in a module of the same name.
    if head and hasattr(parent := resolve(head), name):
        return getattr(parent, name)
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name and f"{dotted}.".startswith(f"{error.name}."):
            raise LookupError(dotted) from None
        raise  # The module exists, and something that it imports does not.


def find(need: Sequence[str]) -> tuple[str, Any]:
    """Return the first of several dotted names that exists, with what it stands for; LookupError if none."""
    for dotted in need:
        try:
            return dotted, resolve(dotted)
        except LookupError:
            continue
    raise LookupError(", ".join(need))


class Api:
    """What a check asked for in ``needs``, as attributes."""

    def __init__(self, needs: Sequence[Sequence[str]]) -> None:
        self._found = {need[0].rpartition(".")[2]: find(need) for need in needs}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._found[name][1]
        except KeyError:
            msg = f"{name} is not among the needs of this check"
            raise CheckFault(msg) from None


@dataclass
class Context:
    """What a check is handed on each rank: where it is, and how it says what it saw.

    ``directory`` is shared by the ranks and the stages of the case, and empty when the first stage starts.
    A difference is noted and the check goes on, so that no rank leaves its peers alone in a collective.
    """

    rank: int
    world_size: int
    device: torch.device
    backend: str
    directory: Path
    stage: str
    api: Api
    compared: int = 0
    mismatches: list[dict[str, Any]] = field(default_factory=list)
    measurements: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def equal(
        self,
        label: str,
        got: Any,
        wanted: Any,
        *,
        wrong: Mapping[str, Any] | None = None,
        exact: bool = False,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        """Compare a value with the oracle's: tensors, plain values, or dicts, lists and tuples of them.

        ``wrong`` maps the name of a deviation to the value that it would give. Tensors must agree in shape
        and dtype too; ``exact`` asks for equal bits, ``rtol`` and ``atol`` replace ``TOLERANCES``.

        Raises CheckFault when a known wrong value cannot be told from the right one.
        """
        tolerance = (0.0, 0.0) if exact else None
        if rtol is not None or atol is not None:
            tolerance = (rtol or 0.0, atol or 0.0)
        self.compared += 1
        differing = differences(got, wanted, tolerance)
        known = dict(wrong or {})
        for name, value in known.items():
            if not differences(value, wanted, tolerance):
                msg = f"{label}: the known wrong value {name!r} equals the right one"
                raise CheckFault(msg)
        if not differing:
            return
        named = [name for name, value in known.items() if not differences(got, value, tolerance)]
        path, got_leaf, wanted_leaf = differing[0]
        self.mismatches.append(
            {
                "label": f"{label}{path}",
                "differing": len(differing),
                "of": len(leaves(wanted)),
                "got": shown(got_leaf),
                "wanted": shown(wanted_leaf),
                "max_abs_diff": max_abs_diff(got_leaf, wanted_leaf),
                "deviations": named,
            }
        )

    def measure(self, name: str, value: float) -> None:
        """Keep a number as evidence; it decides nothing."""
        self.measurements[name] = value

    def note(self, text: str) -> None:
        """Keep a remark as evidence, such as an argument that this release alone requires."""
        self.notes.append(text)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten dicts, lists and tuples to ``{path: leaf}``; an empty container is a leaf."""
    if isinstance(value, Mapping) and value:
        items = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)) and value:
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for key, item in items for name, leaf in leaves(item, key).items()}


def differences(got: Any, wanted: Any, tolerance: tuple[float, float] | None) -> list[tuple[str, Any, Any]]:
    """List ``(path, got, wanted)`` of every leaf that differs, the largest difference first."""
    got_leaves, wanted_leaves = leaves(got), leaves(wanted)
    paths = [*wanted_leaves, *(path for path in got_leaves if path not in wanted_leaves)]
    pairs = [(path, got_leaves.get(path, "(absent)"), wanted_leaves.get(path, "(absent)")) for path in paths]
    differing = [pair for pair in pairs if not agrees(pair[1], pair[2], tolerance)]
    return sorted(differing, key=lambda pair: -(max_abs_diff(pair[1], pair[2]) or 0.0))


def agrees(got: Any, wanted: Any, tolerance: tuple[float, float] | None) -> bool:
    """Tell whether two leaves agree: type, and for tensors shape, dtype and values within the tolerance."""
    if not isinstance(wanted, torch.Tensor) or not isinstance(got, torch.Tensor):
        return type(got) is type(wanted) and bool(got == wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    got, wanted = got.detach().cpu(), wanted.detach().cpu()
    rtol, atol = tolerance or TOLERANCES.get(wanted.dtype, (0.0, 0.0))
    if rtol == atol == 0.0:
        return torch.equal(got, wanted)
    return torch.allclose(got.double(), wanted.double(), rtol=rtol, atol=atol, equal_nan=True)


def max_abs_diff(got: Any, wanted: Any) -> float | None:
    """Return the largest difference of two tensors of one shape, inf where one is not finite, else None."""
    if not isinstance(got, torch.Tensor) or not isinstance(wanted, torch.Tensor) or got.shape != wanted.shape:
        return None
    if got.numel() == 0 or got.is_complex() or wanted.is_complex():
        return None
    difference = (got.detach().cpu().double() - wanted.detach().cpu().double()).abs()
    return float(difference.nan_to_num(nan=float("inf")).max())


def shown(leaf: Any) -> str:
    """Return a leaf as short text: a tensor's first eight values, with its shape and dtype."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)[:200]
    values = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in
                       leaf.detach().cpu().flatten()[:8].tolist())
    more = ", ..." if leaf.numel() > 8 else ""
    return f"[{values}{more}] shape={tuple(leaf.shape)} dtype={str(leaf.dtype).removeprefix('torch.')}"


# -- running it ------------------------------------------------------------------------------------

START_S = 180.0


def run_rank(pipe: Any, function: Callable[..., None], task: dict[str, Any]) -> NoReturn:
    """Run the check on one rank, say what came out, and stay until all have: peers would see a reset."""
    os.environ.update({name: str(task[name.lower()]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")})
    stacks = Path(task["stacks"]).open("w", encoding="utf-8")
    faulthandler.enable()
    if hasattr(signal, "alarm"):  # Where whoever watches was killed, nobody else ends a rank that is stuck.
        signal.alarm(int(task["deadline_s"] + 2 * START_S))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        api = Api(task["needs"])  # Importing them is still part of starting.
        pipe.send({"phase": "init"})
        faulthandler.dump_traceback_later(task["deadline_s"], file=stacks)
        context = context_of(task, api)
        pipe.send({"phase": "body"})
        function(context, **task["params"])
    except SystemExit:
        raise  # Leaving without a report is what is to be seen.
    except BaseException as error:
        report = {"error": described(error, function)}
        pipe.send({"report": report})
    else:
        parts = ("compared", "mismatches", "measurements", "notes")
        report = {part: getattr(context, part) for part in parts}
        pipe.send({"phase": "report", "report": report})
    faulthandler.cancel_dump_traceback_later()
    pipe.recv()  # The release.
    if "error" not in report and dist.is_initialized():  # After an error it can hang.
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def context_of(task: dict[str, Any], api: Api) -> Context:
    """Join the process group, by a file; return what the check is handed."""
    device = torch.device(task["device"])
    if device.type != "cpu":
        accelerator = getattr(torch, device.type)
        device = torch.device(device.type, task["rank"] % accelerator.device_count())
        accelerator.set_device(device)
    if task["process_group"]:
        dist.init_process_group(
            task["backend"],
            init_method=Path(task["rendezvous"]).as_uri(),
            rank=task["rank"],
            world_size=task["world_size"],
        )
    return Context(
        rank=task["rank"],
        world_size=task["world_size"],
        device=device,
        backend=task["backend"],
        directory=Path(task["directory"]),
        stage=task["stage"],
        api=api,
    )


def described(error: BaseException, function: Callable[..., None]) -> dict[str, Any]:
    """Describe what a check raised; ``rejected`` says that its own call did not fit a signature."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[-1].name in {"wrapper", "inner", "wrapped"}:  # torch's, around its functions
        frames.pop()
    misfit = r"unexpected keyword argument|missing \d+ required|takes .*arguments? but|takes no .*arguments"
    is_ours = bool(frames) and frames[-1].filename == function.__code__.co_filename
    return {
        "text": f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        "rejected": isinstance(error, TypeError) and bool(re.search(misfit, str(error))) and is_ours,
        "refused": isinstance(error, NotImplementedError),
        "fault": isinstance(error, CheckFault),
    }


REFUSALS = (
    '^RuntimeError: Cannot use ReduceOp\\.\\w+ with Gloo',
    '^RuntimeError: Cannot use ReduceOp\\.\\w+ with non-integral dtype',
    '^RuntimeError: ProcessGroup\\w+ does not support \\w+',
    '^RuntimeError: Backend \\w+ does not support \\w+',
    '^RuntimeError: ProcessGroupGloo::\\w+: unsupported \\w+',
    '^ValueError: \\w+ does not support \\S+ on complex tensors',
    '^RuntimeError: FSDP requires \\w+ for streams',
)
LOST_PEERS = (
    'Connection closed by peer',
    'Connection reset by peer',
    '\\] (?:Read error|writev) \\[',
    'Broken pipe',
    'Gloo connectFullMesh failed with',
    'Connection refused',
    'Connect timeout',
    'Timed out waiting \\d+ms for \\w+ operation',
    'Application timeout caused pair closure',
    '^[\\w.]+: (?:Wait|wait|Socket) [Tt]imeout',
    'Rank \\d+ failed to pass monitoredBarrier',
)
MACHINE_FAULTS = (
    '^MemoryError',
    "can't allocate memory|[Cc]annot allocate memory",
    'No space left on device|Disk quota exceeded',
    'Too many open files|\\[Errno 11\\] Resource temporarily unavailable',
    '^(?:torch\\.)?OutOfMemoryError|CUDA out of memory',
)


@dataclass
class Rank:
    """What is known of one rank."""

    rank: int
    phase: str = "start"
    report: dict[str, Any] = field(default_factory=dict)
    exit: str = ""
    """How it ended before it was released; empty while it lives."""
    stacks: str = ""

    @property
    def error(self) -> dict[str, Any]:
        """What it raised."""
        found: dict[str, Any] = self.report.get("error", {})
        return found

    @property
    def text(self) -> str:
        """What it raised, as ``Type: message``."""
        return str(self.error.get("text", ""))

    @property
    def failed(self) -> bool:
        """Whether it failed by itself: a lost peer is a symptom."""
        return bool(self.exit or (self.error and not says(LOST_PEERS, self.text)))


def says(patterns: Sequence[str], text: str) -> bool:
    """Tell whether a text holds one of some regular expressions."""
    return any(re.search(pattern, text) for pattern in patterns)


def verdict(ranks: Sequence[Rank]) -> tuple[str, str]:
    """Return a status and a few words: crash > error > hang > wrong > unsupported > pass."""
    failure = fault_of(ranks) or crash_of(ranks) or error_of(ranks) or hang_of(ranks)
    if failure:
        return failure
    deviations = [mismatch["deviations"] for rank in ranks for mismatch in rank.report["mismatches"]]
    return ("wrong", deviation_of(deviations)) if deviations else ("pass", "")


def fault_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return what says nothing about torch: the check compared nothing, or the machine is short of something."""
    if any(rank.report.get("compared") == 0 for rank in ranks):
        return "infra", "the check compared nothing"
    short = [
        rank.text for rank in ranks if rank.error and (rank.error["fault"] or says(MACHINE_FAULTS, rank.text))
    ]
    return ("infra", first_line(short[0])) if short else None


def crash_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return how a rank died."""
    dead = [rank for rank in ranks if rank.exit]
    return ("crash", f"{dead[0].exit} in phase {dead[0].phase}") if dead else None


def error_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return what was raised: one's own failure rather than that a peer is lost, a refusal only where all refuse."""
    raised = [rank for rank in ranks if rank.error]
    own = [rank for rank in raised if rank.failed]
    status = "error"
    if len(own) == len(ranks):
        if all(rank.error["rejected"] for rank in own):
            status = "missing"
        elif all(rank.error["refused"] or says(REFUSALS, first_line(rank.text)) for rank in own):
            status = "unsupported"
    if own or (raised and all(rank.report for rank in ranks)):
        return status, first_line((own or raised)[0].text)
    return None


def hang_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return where a rank was that had not reported in time."""
    phases = [rank.phase for rank in ranks if not rank.report]
    if not phases:
        return None
    status = "infra" if set(phases) == {"start"} else "hang"
    return status, f"no report by the deadline, in phase {', '.join(dict.fromkeys(phases))}"


def deviation_of(found: Sequence[Sequence[str]]) -> str:
    """Return the deviation that explains every mismatch, else the first of each."""
    shared = [name for name in found[0] if all(name in names for names in found)]
    return shared[0] if shared else "; ".join(sorted({(*names, "no known deviation")[0] for names in found}))


def first_line(text: str) -> str:
    """Return the first line of a text."""
    return text.strip().partition("\n")[0]


GRACE_S, LEAVE_S = 10.0, 10.0


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
        if code is not None and (code or not self.seen.report):
            self.seen.exit = exit_words(code)

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
        waiting = [worker for worker in workers if not (worker.seen.report or worker.seen.exit)]
        if not waiting:
            break
        wait([end for worker in waiting for end in (worker.pipe, worker.process.sentinel)], timeout=0.2)
        for worker in workers:
            worker.listen()
        if not started and all(worker.seen.phase != "start" for worker in waiting):
            started, limit = True, time.monotonic() + deadline_s + 1.0  # Stacks are written before that.
        if not failed and (any(worker.seen.failed for worker in workers) or (others and others.failed())):
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
        self.store.add("failed", int(own.failed))
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
        release = all(rank.report and not rank.exit for rank in ranks)
    finally:
        late = [(worker.seen.rank, worker.leave(release=release)) for worker in workers]
    for rank, words in late:
        if words:
            print(f"rank {rank}: in teardown, which decides nothing: {words}")
    return ranks


def run_stages(
    function: Callable[..., None], params: dict[str, Any], options: argparse.Namespace, others: Others | None
) -> tuple[str, str]:
    """Run the stages until one fails; return the last one's status."""
    declared = vars(function)["declared"]
    folder = Path(others.folder() if others else tempfile.mkdtemp())
    (folder / "case").mkdir(exist_ok=True)  # Shared by the ranks and the stages.
    common = {
        **vars(options),
        "params": params,
        "needs": needs_of(declared),
        "directory": str(folder / "case"),
    }
    status, words = "pass", ""
    try:
        for stage in declared.get("stages", [Stage("run")]):
            size = others.size if others else stage.world_size or options.ranks
            own = [others.rank] if others else range(size)
            tasks = [{**common, **task_of(stage, rank, size, folder)} for rank in own]
            ranks = run_stage(function, tasks, others)
            show_ranks(stage.name, ranks)
            status, words = verdict(ranks)
            if status != "pass":
                break
    finally:
        if not others or others.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    return status, words


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
    if rank.exit:
        yield f"{rank.exit} in phase {rank.phase}"
    elif not rank.report:
        yield f"no report, in phase {rank.phase}\n{rank.stacks}"
    elif rank.error:
        yield rank.error["traceback"]
    for mismatch in rank.report.get("mismatches", ()):
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
    if rank.report.get("compared") and not rank.report["mismatches"]:
        yield f"{rank.report['compared']} compared, all as expected"


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


def main(function: Callable[..., None], params: dict[str, Any]) -> int:
    """Run the check; return 0 where it passes, else 1."""
    declared = vars(function)["declared"]
    sizes, deadline_s = declared.get("world_sizes", (2,)), declared.get("deadline_s", 30.0)
    parser = argparse.ArgumentParser(description=function.__doc__)
    parser.add_argument("--ranks", type=int, default=sizes[0], help="number of ranks, without torchrun")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, xpu, ...")
    parser.add_argument(
        "--deadline-s", type=float, default=deadline_s, help="seconds until it counts as a hang"
    )
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that the ranks are ended too.
    others = Others(options.deadline_s) if "TORCHELASTIC_RUN_ID" in os.environ else None
    with contextlib.redirect_stdout(None) if others and others.rank else contextlib.nullcontext():
        ranks = others.size if others else options.ranks
        print(f"torch {torch.__version__}, {options.backend} on {options.device}, {ranks} ranks")
        status, words = hindered(declared, options, others) or run_stages(function, params, options, others)
        print(f"observed: {status}" + (f" ({words})" if words else ""), flush=True)
    if others:
        others.leave()
    return 0 if status == "pass" else 1


if __name__ == "__main__":
    sys.exit(main(reduce, {'op': 'product'}))
