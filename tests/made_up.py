"""Records and outcomes for tests, made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canishard import record as record_files
from canishard.facts.quirks import Quirk
from canishard.launch.outcome import Attempt, Case, Outcome, RankEvidence, Status
from canishard.record import CANARY, Record, Suite
from canishard.record.environment import Environment, Variant

DIGEST = "0123456789abcdef"
A, B = "fsdp2.gradients[reduce=default]", "pp.gpipe"

AWKWARD = [
    "a space",
    "a#hash",
    "a?question",
    "a%25cent",
    "an'apostrophe",
    "a;semicolon",
    "a,comma",
    "ä-letter",
    "a[b]",
]
"""Names of folders that an address, a shell, a requirement or a pattern would read otherwise."""


def outcome(case_id: str, world_size: int = 2, status: Status | str = Status.PASS, **more: Any) -> Outcome:
    return Outcome(
        id=case_id, world_size=world_size, digest=more.pop("digest", DIGEST), status=Status(status), **more
    )


def failed(
    case_id: str, world_size: int = 2, message: str = "RuntimeError: no", text: str = "Trace"
) -> Outcome:
    rank = RankEvidence(rank=0, phase="report", error=message, traceback=text, output="said")
    attempts = [Attempt(status=Status.ERROR, start_method="fork", message=message, ranks=[rank])] * 2
    return outcome(case_id, world_size, Status.ERROR, message=message, attempts=attempts)


def environment(channel: str = "2.8.0", **more: Any) -> Environment:
    fields = {
        "channel": channel,
        "flavour": "cuda-nodriver",
        "backend": "gloo",
        "device": "cpu",
        "python": "3.11",
        "system": "linux",
        "machine": "x86_64",
    }
    return Environment(**{**fields, **more})


def variant(torch: str = "2.8.0+cu128", **more: Any) -> Variant:
    fields: dict[str, Any] = {
        "torch": torch,
        "git_version": "a1b2c3",
        "cuda": "12.8",
        "nccl": "2.27.3",
        "python": "3.11.9",
        "glibc": "2.36",
        "packages": {"numpy": "2.3.0"},
    }
    return Variant(**{**fields, **more})


def record(*cells: Outcome, channel: str = "2.8.0", **more: Any) -> Record:
    place = {key: more.pop(key) for key in list(more) if key in Environment.__struct_fields__}
    fields: dict[str, Any] = {
        "environment": environment(channel, **place),
        "variant": variant(f"{channel}+cu128"),
        "suite": Suite(version="0.1.0", commit="c0ffee"),
        "started": "2026-01-31T12:00:00Z",
        "ended": "2026-01-31T12:00:30Z",
        "start_method": "fork",
        "variables": {"OMP_NUM_THREADS": "1"},
    }
    return Record(cells=list(cells), **{**fields, **more})


def canaries() -> list[Outcome]:
    return [outcome(CANARY, 2), outcome(CANARY, 4)]


def case(case_id: str, world_size: int = 2) -> Case:
    family = case_id.partition(".")[0]
    return Case(
        id=case_id,
        world_size=world_size,
        digest=DIGEST,
        family=family,
        feature="feature",
        title="Title",
        module=f"canishard.checks.{family}",
        function="function",
    )


def cases_of(measured: Record) -> list[Case]:
    return [case(cell.id, cell.world_size) for cell in measured.cells]


def quirk(**more: Any) -> Quirk:
    fields: dict[str, Any] = {
        "name": "sums",
        "title": "It sums",
        "what": "It sums, whatever is asked for.",
        "cases": ["fsdp2.gradients[reduce=*]"],
        "shows": [Status.WRONG],
    }
    return Quirk(**{**fields, **more})


def written(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), record_files.evidence_path(path).read_bytes()


def saved(tmp_path: Path, value: Record) -> Path:
    path = tmp_path / f"{value.name}.json"
    record_files.save(value, path)
    return path


def full() -> Record:
    return record(
        *canaries(),
        outcome(A, 2, "wrong", deviation="summed", message="got 2", measurements={"ratio": 2.0}),
        outcome(A, 4, names=["torch.distributed._old"], notes=["a note"]),
        failed(B),
    )
