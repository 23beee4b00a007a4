"""Which wordings are a refusal, and which only say that a peer is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up import outcome

from canishard.errors import ConfigurationError
from canishard.launch import refusals
from canishard.launch.outcome import Attempt, RankEvidence, Status

# As gloo said them, on 2.4.1, 2.6.0, 2.8.0, 2.13.0 and 2.15.0.
PAIR = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544]"
REFUSED = [
    "NotImplementedError: not yet",
    "RuntimeError: Cannot use ReduceOp.AVG with Gloo",
    "RuntimeError: Cannot use ReduceOp.PREMUL_SUM with Gloo\nException raised from getFunction",
    "RuntimeError: Cannot use ReduceOp.BAND with non-integral dtype",
    "RuntimeError: ProcessGroupGloo does not support reduce_scatter",
    "RuntimeError: Backend gloo does not support alltoall",
    "ValueError: all_reduce does not support RedOpType.MAX on complex tensors",
    "RuntimeError: FSDP requires CUDA for streams",
]
LOST = [
    f"{PAIR} Connection closed by peer [127.0.0.1]:40351",
    f"{PAIR} Connection closed by peer [127.0.0.1]:56041. This is typically caused by a remote worker crashing.",
    f"{PAIR} Read error [127.0.0.1]:20388: Connection reset by peer",
    f"{PAIR} Timed out waiting 3000ms for recv operation to complete",
    "RuntimeError: Application timeout caused pair closure",
    "RuntimeError: Wait timeout",
    "torch.distributed.DistStoreError: wait timeout after 3000ms, keys: /0/1",
    "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 1000 ms",
    "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
    "RuntimeError: Broken pipe",
]
SHORT = [
    "MemoryError: ",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
    "OSError: [Errno 28] No space left on device: 'x'",
    "OSError: [Errno 24] Too many open files",
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.",
]
NO_DRIVER = [
    "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    "RuntimeError: FSDP requires CUDA for streams",
]
NEITHER = [
    "RuntimeError: Invalid scalar type",
    "AttributeError: 'Stream' object has no attribute 'record_event'",
    "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    "RuntimeError: [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4",
    "RuntimeError: something else\nRuntimeError: ProcessGroupGloo does not support reduce_scatter",
    "",
]


@pytest.mark.parametrize("text", [*REFUSED, *LOST, *SHORT, *NEITHER])
def test_the_committed_wordings(text: str) -> None:
    rules = refusals.load().rules
    assert rules.is_refusal(text) is (text in REFUSED)
    assert rules.is_lost_peer(text) is (text in LOST)
    assert rules.is_machine_fault(text) is (text in SHORT)
    assert refusals.load().lacks_driver(text) is (text in NO_DRIVER)


def test_no_committed_wording_is_both() -> None:
    words = refusals.load()
    assert not [row.example for row in words.refusals if words.rules.is_lost_peer(row.example)]
    assert not [row.example for row in words.lost_peers if words.rules.is_refusal(row.example)]


def test_all_faults_are_in_one_error(tmp_path: Path) -> None:
    path = tmp_path / "refusals.toml"
    path.write_text(
        """
        [[refusal]]
        pattern = "does not support"
        example = "RuntimeError: no"
        backend = "gloo"

        [[lost_peer]]
        pattern = "("
        example = "RuntimeError: ("
        backend = "gloo"
        seen_on = "2.8.0"
        since = "2.8.0"

        [[lost_peer]]
        pattern = "("
        example = "RuntimeError: ("
        backend = "gloo"
        link = "https://example.org"
        """,
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError) as raised:
        refusals.load(path)
    assert str(raised.value).split("; refusals.toml: ") == [
        "refusals.toml: lost_peer[0].since: unknown key; allowed: backend, example, link, pattern, seen_on",
        "refusal[0]: needs seen_on, a torch release, or link, where it was reported",
        "refusal[0].pattern: does not match its own example",
        "lost_peer[1].pattern: not a regular expression: missing ), unterminated subpattern at position 0",
    ]


@pytest.mark.parametrize(
    ("status", "errors", "still"),
    [
        (Status.ERROR, [REFUSED[1], NEITHER[0]], True),
        (Status.ERROR, [REFUSED[1], REFUSED[1]], False),
        (Status.ERROR, [REFUSED[1], ""], True),
        (Status.UNSUPPORTED, [REFUSED[1], REFUSED[1]], True),
        (Status.UNSUPPORTED, [NEITHER[0], NEITHER[0]], False),
        (Status.WRONG, ["", ""], True),
        (Status.ERROR, [], True),
    ],
)
def test_an_earlier_outcome_holds_while_the_wordings_say_the_same(
    status: Status, errors: list[str], still: bool
) -> None:
    ranks = [RankEvidence(rank=rank, phase="body", error=error) for rank, error in enumerate(errors)]
    attempts = [Attempt(status=status, start_method="fork", ranks=ranks)] if errors else []

    earlier = outcome("family.subject", status=status, attempts=attempts)

    assert refusals.load().still_says(earlier) is still


def test_a_wording_of_a_missing_driver_is_held_to_its_example(tmp_path: Path) -> None:
    path = tmp_path / "refusals.toml"
    path.write_text('[[no_driver]]\npattern = "no driver"\nexample = "RuntimeError: no"\n', encoding="utf-8")
    with pytest.raises(ConfigurationError) as raised:
        refusals.load(path)
    assert str(raised.value).split("; refusals.toml: ") == [
        "refusals.toml: no_driver[0]: needs seen_on, a torch release, or link, where it was reported",
        "no_driver[0].pattern: does not match its own example",
    ]


def said(*errors: str, stage: str = "run", refused: bool = False, noted: bool = False) -> list[RankEvidence]:
    mismatches: list[Any] = [{"label": "x"}] if noted else []
    return [
        RankEvidence(
            rank=rank, phase="body", stage=stage, error=error, refused=refused, mismatches=mismatches
        )
        for rank, error in enumerate(errors)
    ]


OTHER = "Unavailable: not here"


@pytest.mark.parametrize(
    ("status", "attempts", "still"),
    [
        (Status.UNSUPPORTED, [[*said("", "", stage="save"), *said(REFUSED[1], stage="load")]], True),
        (Status.ERROR, [[*said("", "", stage="save"), *said(REFUSED[1], stage="load")]], False),
        (Status.UNSUPPORTED, [said(OTHER, OTHER, refused=True)], True),
        (Status.ERROR, [said(OTHER, OTHER, refused=True)], False),
        (Status.ERROR, [said(REFUSED[1], REFUSED[1], noted=True)], True),
        (Status.UNSUPPORTED, [said(REFUSED[1], REFUSED[1], noted=True)], False),
        (Status.ERROR, [said(OTHER, OTHER), said(REFUSED[1], REFUSED[1])], False),
        (Status.UNSUPPORTED, [said(REFUSED[1], REFUSED[1]), said(OTHER, OTHER)], False),
    ],
    ids=[
        "refused at a later stage", "an error at a later stage that is a refusal today", "a derived class",
        "a derived class, then an error", "a value differed before", "a refusal though a value differed before",
        "the second attempt would be a refusal", "the second attempt would be none",
    ],
)  # fmt: skip
def test_an_earlier_outcome_is_judged_by_each_attempts_last_stage(
    status: Status, attempts: list[list[RankEvidence]], still: bool
) -> None:
    made = [Attempt(status=status, start_method="fork", ranks=ranks) for ranks in attempts]

    assert refusals.load().still_says(outcome("family.subject", status=status, attempts=made)) is still
