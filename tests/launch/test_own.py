"""A project's own functions on ranks: this file's own, as a test of another project would have them."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from canishard.errors import ConfigurationError, InfraError
from canishard.launch import Outcome, Ranks, RanksFailed, Status, explain, own, processes, run_on_ranks
from canishard.launch.client import Server

torch_needed = pytest.mark.torch

# ---- what runs on the ranks; torch is imported there alone --------------------------------------


def sums(context: Any, factor: float = 1.0, name: str = "sum") -> None:
    import torch  # noqa: PLC0415 - this file is imported where there is no torch too
    import torch.distributed as dist  # noqa: PLC0415 - as above

    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    context.equal(name, tensor * factor, torch.full((2,), float(context.world_size)))


def asserts(context: Any) -> None:
    assert context.rank == 0, "only rank 0 is right"


def asserts_what_is_so(context: Any) -> None:
    assert context.world_size == 3
    Path("a file of its own").write_text("left behind", encoding="utf-8")


def waits_for_good(context: Any) -> None:
    if context.rank == 1:
        time.sleep(3600.0)


def dies(context: Any) -> None:
    if context.rank == 1:
        os.kill(os.getpid(), signal.SIGABRT)


def imports(context: Any) -> None:
    assert context.world_size == importlib.import_module("only_here").RANKS


async def never_awaited(context: Any) -> None:
    """Do nothing."""


class Holder:
    def method(self, context: Any) -> None:
        """Do nothing."""


# ---- what comes of it ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with Ranks() as found:
        yield found


def server(ranks: Ranks) -> Server:
    assert ranks._launcher
    (found,) = ranks._launcher._servers.values()
    return found


OUTCOMES = [
    (sums, {}, Status.PASS, "", ""),
    (sums, {"factor": 2.0, "name": "twice"}, Status.WRONG, "twice: got [4, 4]", "  twice: got [4, 4]"),
    (asserts, {}, Status.ERROR, "AssertionError: only rank 0 is right", 'test_own.py", line'),
    (waits_for_good, {}, Status.HANG, "in waits_for_good (test_own.py, line", "test_own.py"),
    (dies, {}, Status.CRASH, "signal SIGABRT in phase body", "rank 1: phase body, signal SIGABRT"),
]


@torch_needed
@pytest.mark.parametrize("row", OUTCOMES, ids=[f"{row[0].__name__}-{row[2].value}" for row in OUTCOMES])
def test_a_function_has_the_statuses_of_a_check_and_nothing_is_left(ranks: Ranks, row: Any) -> None:
    function, params, status, message, evidence = row
    ranks.run(asserts_what_is_so, world_size=3, check=True)
    before = server(ranks).process.pid

    outcome = ranks.run(function, params=params, deadline_s=2.0 if status is Status.HANG else 30.0)

    assert (outcome.status, message in outcome.message) == (status, True), explain(outcome)
    assert evidence in explain(outcome)
    assert len(outcome.attempts) == 1
    assert server(ranks).process.pid == before
    assert processes.descendants(before) == []
    folder = server(ranks).directory
    assert [path for path in folder.iterdir() if path.is_dir() and any(path.iterdir())] == []


@torch_needed
def test_a_failure_shows_what_every_rank_said(ranks: Ranks) -> None:
    with pytest.raises(RanksFailed) as caught:
        ranks.run(sums, params={"factor": 2.0}, check=True)

    first, *_ = text = str(caught.value).splitlines()
    assert first.startswith(
        "test_own.sums[factor=2.0] on 2 ranks: wrong (no known deviation): sum: got [4, 4]"
    )
    assert [line for line in text if line.startswith("rank ")] == [
        "rank 0: phase teardown",
        "rank 1: phase teardown",
    ]
    assert caught.value.outcome.status is Status.WRONG
    assert isinstance(caught.value, AssertionError)


@torch_needed
def test_ranks_import_from_where_this_process_does(
    ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("RANKS = 2\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    ranks.run(imports, check=True)


@torch_needed
def test_what_did_not_pass_is_repeated_where_that_is_asked_for() -> None:
    with Ranks() as other:
        outcome = other.run(asserts, confirm=True)

    assert [attempt.status for attempt in outcome.attempts] == [Status.ERROR, Status.ERROR]
    assert other._launcher is None


@torch_needed
def test_spawned_ranks_find_the_function_too() -> None:
    with Ranks(start_method="spawn") as spawning:
        outcome = spawning.run(sums, check=True)

        assert [attempt.start_method for attempt in outcome.attempts] == ["spawn"]


# ---- in processes of their own -------------------------------------------------------------------

SCRIPT = """
import os, sys
from canishard.launch import run_on_ranks, own
from package.inner import body

def here(context, text):
    assert text == "told" and __name__ == "script", __name__

{guard}
    for function, params in [(here, {{"text": "told"}}), (body, {{}})]:
        outcome = run_on_ranks(function, params=params, check=True)
    (ranks,) = own._SHARED.values()
    (server,) = ranks._launcher._servers.values()
    print(outcome.id, "torch" in sys.modules, server.run, server.directory, flush=True)
    {end}
"""
GUARD = 'if __name__ == "__main__":'


def script(
    folder: Path, *, guard: str = GUARD, end: str = "pass", **more: str
) -> subprocess.CompletedProcess[str]:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "package" / "other.py").write_text("VALUE = 1\n", encoding="utf-8")
    (folder / "package" / "inner.py").write_text(
        "from .other import VALUE\n\ndef body(context):\n    assert VALUE == 1\n", encoding="utf-8"
    )
    (folder / "script.py").write_text(SCRIPT.format(guard=guard, end=end), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env={**os.environ, **more},
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip


@torch_needed
@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)], ids=["exit", "killed"]
)
def test_nothing_is_left_of_a_script_that_never_loads_torch(tmp_path: Path, end: str, code: int) -> None:
    done = script(tmp_path, end=end)

    assert done.returncode == code, done.stdout + done.stderr
    name, has_torch, run, folder = done.stdout.split()
    assert (name, has_torch) == ("inner.body", "False")
    deadline = time.monotonic() + 60.0
    while processes.marked(run) or Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@torch_needed
def test_a_script_that_ranks_cannot_import_without_running_it_is_told_so(tmp_path: Path) -> None:
    done = script(tmp_path, guard="if True:")

    assert done.returncode == 1
    assert (
        "RanksFailed: script.here[text=told] on 2 ranks: error: ConfigurationError: here: a rank starts no ranks"
        in done.stderr
    )
    assert "if __name__ == '__main__':" in done.stderr


def test_a_torch_that_cannot_be_imported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.99: cannot open')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with (
        Ranks() as found,
        pytest.raises(InfraError, match=r"torch cannot be imported: OSError: libcudart.so.99"),
    ):
        found.run(sums)


# ---- what cannot be ------------------------------------------------------------------------------


def nested() -> Any:
    def inner(context: Any) -> None:
        """Do nothing."""

    return inner


BY_NAME = "ranks import the function by its name: it must be a plain function at the top level of a file"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda context: None, f"<lambda>: {BY_NAME}"),  # noqa: ARG005 - it is never called
        (nested(), f"nested.<locals>.inner: {BY_NAME}"),
        (Holder().method, f"Holder.method: {BY_NAME}"),
        (Holder.method, f"Holder.method: {BY_NAME}"),
        (functools.partial(sums, factor=2.0), BY_NAME),
        (len, f"len: {BY_NAME}"),
        (never_awaited, "never_awaited: calling it runs nothing"),
        (nested, r"nested: is called as nested(context, **params): too many positional arguments"),
    ],
    ids=["lambda", "nested", "method", "unbound", "partial", "builtin", "async", "no-context"],
)
def test_a_function_that_ranks_cannot_import_is_one_line(function: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        run_on_ranks(function)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_without_a_file_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "__file__", None)

    with pytest.raises(
        ConfigurationError, match=r"sums: ranks import the function from its file, and module .* has none"
    ):
        run_on_ranks(sums)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"params": {"facto": 2.0}},
            r"sums: is called as sums\(context, \*\*params\): got an unexpected keyword argument",
        ),
        ({"params": {"factor": [2.0]}}, r"params\['factor'\]=\[2.0\]: expected a text, number or boolean"),
        ({"params": {"name": "x" * 20_000}}, r"sums: params are too long for a message \(20000 characters\)"),
        ({"world_size": 0}, "world_size=0: expected a number of ranks, at most 128"),
        ({"world_size": 129}, "world_size=129: expected a number of ranks, at most 128"),
        ({"deadline_s": 0}, "deadline_s=0: expected seconds"),
        ({"start_method": "thread"}, "start_method='thread': allowed: auto, fork, spawn"),
    ],
)
def test_an_option_that_cannot_be_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run_on_ranks(sums, **options)


def test_no_server_is_started_for_what_cannot_be() -> None:
    with Ranks() as found, pytest.raises(ConfigurationError):
        found.run(sums, world_size=0)

    assert found._launcher is None
    assert all(ranks._launcher is None for ranks in own._SHARED.values())


def test_an_unknown_name_of_the_package_is_none() -> None:
    import canishard.launch  # noqa: PLC0415 - its attributes are what is looked at

    with pytest.raises(AttributeError, match="has no attribute 'run_on_rank'"):
        _ = canishard.launch.run_on_rank  # type: ignore[attr-defined]


def test_an_outcome_without_attempts_is_explained() -> None:
    outcome = Outcome(id="x.y", world_size=2, digest="", status=Status.NOT_RUN, message="no CUDA device")

    assert explain(outcome).splitlines() == ["not_run: no CUDA device", "attempts: none"]
