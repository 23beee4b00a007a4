"""Checks that misbehave, each in one way; a launcher is judged by what it says of them.

Copied beside a test's other files, so that what a check writes next to itself is the test's own.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

from canishard.check import Context, Stage, check

HERE = Path(__file__).parent
FOREVER_S = 3600.0
IMPORTED_BY = os.getpid()


def fine(context: Context) -> None:
    tensor = torch.tensor([context.rank + 1.0])
    dist.all_reduce(tensor)
    context.equal("sum", tensor, torch.tensor([sum(range(1, context.world_size + 1)) + 0.0]))


@check(feature="good", world_sizes=(2, 4))
def good(context: Context) -> None:
    """A check that passes."""
    fine(context)


@check(feature="wrong", world_sizes=(2,))
def wrong(context: Context) -> None:
    """A value that differs."""
    fine(context)
    got = torch.tensor([3.0, 4.0])
    context.equal("value", got, got / 2, wrong={"summed instead of averaged": got})


@check(feature="raises", params={"on": ["one", "all"]}, world_sizes=(2,))
def raises(context: Context, on: str) -> None:
    """An exception; the peers wait for the rank that raised."""
    if on == "all" or context.rank == 1:
        msg = f"no good on {on}"
        raise RuntimeError(msg)
    fine(context)


@check(feature="refuses", params={"on": ["one", "all"]}, world_sizes=(2,))
def refuses(context: Context, on: str) -> None:
    """A clear refusal, on every rank or on one."""
    if on == "all" or context.rank == 1:
        msg = "this backend does not do that"
        raise NotImplementedError(msg)
    fine(context)


@check(feature="refuses", world_sizes=(2,))
def wrong_then_refuses(context: Context) -> None:
    """A value that differs, then a refusal on every rank."""
    fine(context)
    context.equal("value", torch.tensor([3.0]), torch.tensor([4.0]))
    msg = "this backend does not do that"
    raise NotImplementedError(msg)


class Unavailable(NotImplementedError):
    """A refusal by another name."""


@check(feature="refuses", world_sizes=(2,), stages=(Stage("save"), Stage("load")))
def refuses_late(context: Context) -> None:
    """A refusal at a later stage, by an exception derived from the plain one."""
    fine(context)
    if context.stage == "load":
        msg = "not on this backend"
        raise Unavailable(msg)


@check(feature="rejected", world_sizes=(2,))
def rejected(context: Context) -> None:
    """An argument that this release does not have."""
    dist.all_reduce(torch.ones(1), colour="blue")
    context.equal("never", 1, 1)


@check(feature="inner type error", world_sizes=(2,))
def inner_type_error(context: Context) -> None:
    """A TypeError from within a call is no missing argument."""
    len(context.rank)  # type: ignore[arg-type]


@check(feature="missing", needs=[["torch.distributed.no_such_thing", "torch.neither"]])
def missing(context: Context) -> None:
    """A name that no release has."""
    context.equal("never", 1, 1)


@check(feature="nothing", world_sizes=(2,))
def compares_nothing(context: Context) -> None:
    """A check that compares nothing is itself at fault."""
    context.note("nothing")


@check(feature="hang", world_sizes=(2,), deadline_s=2.0)
def gated_gather(context: Context) -> None:
    """A rank is kept from a gather by mistake."""
    tensor = torch.ones(1)
    if context.rank == 0:
        dist.all_gather([torch.empty(1) for _ in range(2)], tensor)  # the line that hangs
    context.equal("never on rank 0", 1, 1)


@check(feature="hang", world_sizes=(2,), deadline_s=2.0)
def sleeps(context: Context) -> None:
    """A rank hangs in Python, its peer waits for it in C++."""
    if context.rank == 1:
        time.sleep(FOREVER_S)
    fine(context)


@check(feature="hang", world_sizes=(2,), deadline_s=2.0)
def stopped(context: Context) -> None:
    """A rank stops itself."""
    if context.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(FOREVER_S)
    fine(context)


@check(feature="hang", world_sizes=(2,), deadline_s=2.0)
def recv_nobody_answers(context: Context) -> None:
    """A rank receives what nobody sends."""
    if context.rank == 1:
        dist.recv(torch.empty(1), src=0)
    context.equal("never on rank 1", 1, 1)


@check(feature="hang", world_sizes=(2,), deadline_s=2.0)
def mismatched(context: Context) -> None:
    """A rank reduces while the other, having reduced once, waits at a barrier."""
    fine(context)
    if context.rank == 1:
        dist.all_reduce(torch.ones(4))
    else:
        dist.recv(torch.empty(4), src=1, tag=7)
    context.equal("never", 1, 1)


class Unpicklable(Exception):
    """An exception that holds what no pickle can, and whose text cannot be had."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        raise RuntimeError


@check(feature="raises", world_sizes=(2,))
def raises_differently(context: Context) -> None:
    """Another exception on each rank, one of which no pickle can hold."""
    fine(context)
    if context.rank == 0:
        raise Unpicklable
    os.environ["ABSENT"]


@check(feature="dies", params={"by": ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGBUS"]}, world_sizes=(2,))
def dies(context: Context, by: str) -> None:
    """A rank dies by a signal."""
    if context.rank == 1:
        os.kill(os.getpid(), getattr(signal, by))
        time.sleep(FOREVER_S)
    fine(context)


@check(feature="dies", params={"who": ["rank0", "all"]}, world_sizes=(2,))
def dies_by(context: Context, who: str) -> None:
    """Rank 0 dies, or all of them."""
    if who in {"all", f"rank{context.rank}"}:
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(FOREVER_S)
    fine(context)


@check(feature="leaves", params={"code": [0, 3]}, world_sizes=(2,))
def leaves(context: Context, code: int) -> None:
    """A rank leaves without a report."""
    if context.rank == 1:
        os._exit(code)
    fine(context)


@check(feature="leaves", world_sizes=(2,))
def sys_exit(context: Context) -> None:
    """A rank leaves by sys.exit, as a script that gives up does."""
    if context.rank == 0:
        sys.exit(3)
    fine(context)


@check(feature="flaky", world_sizes=(2,))
def flaky(context: Context) -> None:
    """Fails the first time only."""
    fine(context)
    seen = HERE / "flaky-seen"
    is_first = not seen.exists()
    dist.barrier()
    if context.rank == 0:
        seen.touch()
    context.equal("value", int(is_first), 0)


@check(feature="flaky", world_sizes=(2,))
def wrong_in_turns(context: Context) -> None:
    """Is wrong each time, and each time in another way."""
    fine(context)
    seen = HERE / "turns-seen"
    got = 2 if seen.exists() else 1
    dist.barrier()
    if context.rank == 0:
        seen.touch()
    context.equal("value", got, 0, wrong={"summed": 1, "averaged": 2})


@check(feature="machine", world_sizes=(2,), stages=(Stage("run", process_group=False),))
def closes_our_channel(context: Context) -> None:
    """Closes all descriptors, what code of ours needs among them."""
    context.equal("value", 1, 1)
    if context.rank == 1:
        os.closerange(3, 1000)


@check(feature="state", world_sizes=(2,))
def hashes(context: Context) -> None:
    """Owes something to the seed of hashes."""
    fine(context)
    context.note(f"hash {hash('text')}, {HERE.name} imported by process {os.getpid() == IMPORTED_BY}")


@check(feature="late", world_sizes=(2,))
def aborts_late(context: Context) -> None:
    """A right result, then an abort at exit."""
    fine(context)
    if context.rank == 1:
        atexit.register(os.abort)


@check(feature="late", world_sizes=(2,))
def thread_runs_on(context: Context) -> None:
    """A right result while a thread runs on."""
    fine(context)
    threading.Thread(target=time.sleep, args=(FOREVER_S,), daemon=True).start()


@check(feature="late", world_sizes=(2,))
def leaves_children(context: Context) -> None:
    """A right result, and a child in a session of its own that ignores SIGTERM."""
    fine(context)
    code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({FOREVER_S})"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    (HERE / f"child{context.rank}").write_text(str(child.pid))


@check(feature="noise", world_sizes=(2,))
def shouts(context: Context) -> None:
    """Bytes that are no text, from Python and from C, and a closed stdout."""
    os.write(1, b"\xff\xfe not text\n" * 1000)
    ctypes.CDLL(None).puts(b"from C")
    sys.stdout.close()
    fine(context)


@check(feature="noise", world_sizes=(2,))
def huge_message(context: Context) -> None:
    """An exception of ten megabytes, not valid UTF-8."""
    fine(context)
    raise ValueError("\udcff" + "x" * 10_000_000)


@check(feature="numbers", world_sizes=(2,))
def odd_measurements(context: Context) -> None:
    """Measurements that JSON cannot hold."""
    fine(context)
    for name, value in {
        "nan": float("nan"),
        "inf": float("inf"),
        "tensor": torch.ones(2),
        "object": object(),
    }.items():
        context.measure(name, value)


@check(feature="state", world_sizes=(2,))
def leaves_state(context: Context) -> None:
    """Changes what a process can change; the next case must not see it."""
    fine(context)
    os.environ["LEFT_BEHIND"] = "1"
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(3)
    Path("left-behind").touch()


@check(feature="state", world_sizes=(2,))
def sees_state(context: Context) -> None:
    """Sees nothing of another case."""
    fine(context)
    context.equal("environment", os.environ.get("LEFT_BEHIND"), None)
    context.equal("the caller's environment", os.environ.get("NOT_PASSED_ON"), None)
    context.equal("threads", torch.get_num_threads(), 1)
    context.equal("default dtype", str(torch.get_default_dtype()), "torch.float32")
    context.equal("grad mode", torch.is_grad_enabled(), True)
    context.equal("files", [str(path) for path in (*Path.cwd().iterdir(), *context.directory.iterdir())], [])
    context.equal("home is our own", Path.home().is_relative_to(Path.cwd().parent), True)


@check(feature="stages", world_sizes=(2,), stages=(Stage("save"), Stage("load", 1, process_group=False)))
def stages(context: Context) -> None:
    """Two stages share a directory, and nothing else."""
    if context.stage == "save":
        fine(context)
        (context.directory / f"rank{context.rank}").touch()
    else:
        context.equal("files", sorted(path.name for path in context.directory.iterdir()), ["rank0", "rank1"])
        context.equal("group", dist.is_initialized(), False)


@check(feature="hang", world_sizes=(2,), deadline_s=FOREVER_S)
def stuck_with_children(context: Context) -> None:
    """Ranks stuck in C, each with a child in a session of its own."""
    child = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({FOREVER_S})"], start_new_session=True
    )
    (HERE / f"stuck{context.rank}").write_text(f"{os.getpid()} {child.pid}\n")
    if context.rank == 0:
        fine(context)
    ctypes.CDLL(None).pause()


@check(feature="late", world_sizes=(2,))
def hangs_late(context: Context) -> None:
    """A right result, then a hang at exit."""
    fine(context)
    if context.rank == 1:
        atexit.register(time.sleep, FOREVER_S)


@check(feature="late", world_sizes=(2,))
def thread_stays(context: Context) -> None:
    """A right result while a thread that Python waits for runs on."""
    fine(context)
    if context.rank == 0:
        threading.Thread(target=time.sleep, args=(FOREVER_S,)).start()


@check(feature="noise", world_sizes=(2,))
def floods(context: Context) -> None:
    """Two hundred megabytes on stdout."""
    line = b"x" * 99_999 + b"\n"
    for _ in range(1000):
        os.write(1, line)
    fine(context)


@check(feature="state", world_sizes=(2,), stages=(Stage("run", process_group=False),))
def leaves_group_open(context: Context) -> None:
    """A process group of its own that is left open."""
    store = dist.FileStore(str(context.directory / "store"), context.world_size)
    dist.init_process_group("gloo", store=store, rank=context.rank, world_size=context.world_size)
    fine(context)


@check(feature="machine", world_sizes=(2,))
def disk_full(context: Context) -> None:
    """Writes more than a small disk holds."""
    fine(context)
    (context.directory / f"rank{context.rank}").write_bytes(b"x" * 20_000_000)


@check(feature="machine", world_sizes=(2,))
def memory_short(context: Context) -> None:
    """Wants more memory than its limit allows."""
    fine(context)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
    torch.ones(2**30)


@check(feature="machine", world_sizes=(2,))
def kills_its_server(context: Context) -> None:
    """The fork server is killed while ranks run."""
    fine(context)
    if context.rank == 0:
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(FOREVER_S)
