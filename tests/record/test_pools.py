"""What is equal is stored once, what tells nothing is left out, and all else comes back as it was."""

from __future__ import annotations

import pytest
from made_up import outcome, record

from canishard import files
from canishard import record as record_files
from canishard.launch.outcome import Attempt, RankEvidence, Status
from canishard.record import pools
from canishard.record.pools import HEAD_LINES, TAIL_LINES, Pools, Try, attempt_of, put, telling

ERROR = "RuntimeError: op.default: no strategy"
OWN = '  File "<canishard>/checks/dtensor.py", line 12, in operator\n    call(tensor)\n'
TORCH = (
    '  File "<site-packages>/torch/distributed/tensor/_dispatch.py", line 34, in dispatch\n    raise error\n'
)
LAUNCH = (
    '  File "<canishard>/launch/rank.py", line 136, in run_rank\n    function(context, **task["params"])\n'
)
HEAD = "Traceback (most recent call last):\n"


def rank(number: int = 0, error: str = ERROR, own: str = OWN, **more: object) -> RankEvidence:
    fields = {"traceback": f"{HEAD}{own}{TORCH}{error}\n", **more}
    return RankEvidence(rank=number, phase="body", error=error, **fields)  # type: ignore[arg-type]


def attempt(*ranks: RankEvidence, **more: object) -> Attempt:
    fields = {"status": Status.ERROR, "start_method": "fork", "message": ERROR, **more}
    return Attempt(ranks=list(ranks), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        attempt(rank(0), rank(1)),
        attempt(rank(1), rank(0), rank(1)),
        attempt(rank(0), rank(1, error="ValueError: other"), rank(2), first_failing_rank=1),
        attempt(rank(0, traceback="cut off"), message="", notes=["a note"]),
        attempt(rank(0, error=""), status=Status.HANG),
        attempt(rank(0, error="", traceback="", stacks="Thread 1\n", output="said"), start_method="spawn"),
        attempt(rank(0, mismatches=[{"got": "[1]", "of": 2}], measurements={"a": 1.5}, stage="save")),
        attempt(),
    ],
)
def test_an_attempt_comes_back_as_it_was(value: Attempt) -> None:
    into = Pools()
    assert attempt_of(put(value, into), into) == value


def test_committed_evidence_comes_back_as_it_was() -> None:
    for path in (files.matrix_dir() / "results").glob("*.evidence.json"):
        main = path.with_name(path.name.replace(".evidence.json", ".json"))
        assert record_files.encode(record_files.load(main))[1] == path.read_bytes()


def test_equal_attempts_and_ranks_are_stored_once() -> None:
    into = Pools()
    tries = [
        put(attempt(*map(rank, range(4)), start_method=how, first_failing_rank=first), into)
        for how, first in (("fork", 0), ("fork", 3), ("spawn", 1))
    ]
    assert len({one.attempt for one in tries}) == 1
    assert [(one.start_method, one.first_failing_rank) for one in tries] == [
        ("fork", 0),
        ("fork", 3),
        ("spawn", 1),
    ]
    assert (len(into.attempts), len(into.ranks)) == (1, 1)
    assert [numbers for one in into.attempts.values() for _, numbers in one.ranks] == [[0, 1, 2, 3]]


def test_tracebacks_that_differ_in_a_frame_and_the_error_share_the_rest() -> None:
    into = Pools()
    put(attempt(rank()), into)
    put(attempt(rank(error="RuntimeError: another"), message="RuntimeError: another"), into)
    assert sorted(into.frames.values()) == sorted([HEAD, OWN, TORCH])
    assert sum(isinstance(text, list) for text in into.texts.values()) == 1
    put(attempt(rank(own=OWN.replace("12", "13"))), into)
    assert len(into.frames) == 4


def test_what_has_the_same_beginning_of_its_hash_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_KEY_LENGTH", 1)
    into = Pools()
    values = [attempt(rank(error=f"Error: {number}")) for number in range(40)]
    tries = [put(value, into) for value in values]
    assert [attempt_of(one, into) for one in tries] == values
    assert max(map(len, into.texts)) <= 3


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{HEAD}{LAUNCH}{OWN}", f"{HEAD}{OWN}"),
        (f"{HEAD}{OWN}{LAUNCH}", f"{HEAD}{OWN}"),
        ("    call(tensor)\n    ^^^^~~^^^^\n", "    call(tensor)\n"),
        ('  File "<frozen runpy>", line 88 in _run_code\n  File "a.py", line 1 in b\n', '  File "a.py", line 1 in b\n'),
        ('  File "<canishard>/launch/rank.py", line 1 in run\n\nThread 2\n', "\nThread 2\n"),
        ("[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n", ""),
        ("[Gloo] Rank 0 is lost\n", "[Gloo] Rank 0 is lost\n"),
        ("x" * 5000, "x" * 598 + "…"),
        ("short\n", "short\n"),
    ],
)  # fmt: skip
def test_what_tells_nothing_is_left_out(text: str, left: str) -> None:
    assert telling(text) == left
    assert telling(left) == left


def test_a_long_text_keeps_its_head_and_its_tail() -> None:
    lines = [f"{number}\n" for number in range(200)]
    found = telling("".join(lines))
    assert found == "".join(lines[:HEAD_LINES]) + "[60 lines left out]\n" + "".join(lines[-TAIL_LINES:])
    assert telling(found) == found


def test_a_stored_record_is_stored_the_same_again() -> None:
    output = "".join(f"{number}\n" for number in range(200))
    value = record(outcome("a.x", 2, "error", attempts=[attempt(rank(output=output, stacks=LAUNCH))]))
    main, beside = record_files.encode(value)
    assert record_files.encode(record_files.decode(main, beside)) == (main, beside)


@pytest.mark.parametrize("pool", ["attempts", "ranks", "texts", "frames"])
def test_a_key_without_its_value_is_named(pool: str) -> None:
    into = Pools()
    tried: Try = put(attempt(rank()), into)
    getattr(into, pool).clear()
    with pytest.raises(pools.DanglingError) as raised:
        attempt_of(tried, into)
    assert raised.value.pool == pool
