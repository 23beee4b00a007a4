"""Evidence as it is stored: what attempts came to, taken apart so that whatever is equal stands once, under its hash.

A cell's attempts mostly differ in how ranks were started, its ranks in their number, and the tracebacks of many
cells in a few frames and the error at their end. So a file has a pool each of attempts, of what ranks said, of
texts, and of the frames in these.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from canishard.launch.outcome import Attempt, RankEvidence, Status

HEAD_LINES, TAIL_LINES = 20, 120
"""What is kept of a long text: what a rank said first and last tells more than what lies between."""

LINE_LENGTH = 600
"""Characters kept of a line."""

_KEY_LENGTH = 8
_PIECES = re.compile(r'^(?= *File ")', re.MULTILINE)
"""Before each frame of a traceback or a stack."""
_FRAME = r'^ *File "(?:<canishard>/launch/|<frozen )[^\n]*\n(?:    (?! *File ")[^\n]*\n?)*'
_NOTHING = re.compile(
    # Frames of what starts ranks, the marks below a line of source, and gloo's greeting: one a rank, all alike.
    rf"{_FRAME}|^ *[\^~]+ *$\n?|^\[Gloo\] Rank \d+ is connected to \d+ peer ranks\.[^\n]*\n?",
    re.MULTILINE,
)
_Value = TypeVar("_Value")


class RankSaid(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one or more ranks of an attempt said and how they ended; texts are keys of ``texts``."""

    phase: str
    exit: str = ""
    state: str = ""
    stage: str = ""
    error: str = ""
    frames: str = ""
    """The traceback up to the error, where it ends with that."""
    traceback: str = ""
    """The whole one, where it does not."""
    stacks: str = ""
    output: str = ""
    mismatches: list[dict[str, str | int | float | list[str] | None]] = []
    measurements: dict[str, float | str | None] = {}
    notes: list[str] = []


class Tried(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one or more attempts came to."""

    status: Status
    message: str = ""
    """A key of ``texts``."""
    deviation: str = ""
    notes: list[str] = []
    ranks: list[tuple[str, list[int]]] = []
    """A key of ``ranks``, with the numbers of the ranks that said this, in order."""


class Try(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One attempt at a case: how ranks were started, which failed first, and a key of ``attempts``."""

    start_method: str
    first_failing_rank: int | None
    attempt: str


class Pools(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the cells of a file refer to, each by its hash."""

    frames: dict[str, str] = {}
    """What several texts are put together from."""
    texts: dict[str, str | list[str]] = {}
    """A text, or the keys of its frames."""
    ranks: dict[str, RankSaid] = {}
    attempts: dict[str, Tried] = {}


class DanglingError(LookupError):
    """A key is in no pool."""

    def __init__(self, pool: str, key: str) -> None:
        super().__init__(pool, key)
        self.pool, self.key = pool, key


# ---- writing -------------------------------------------------------------------------------------


def put(attempt: Attempt, pools: Pools) -> Try:
    """Move what an attempt came to into the pools; return what is left to say of it."""
    said = [(_put_rank(rank, pools), rank.rank) for rank in attempt.ranks]
    tried = Tried(
        status=attempt.status,
        message=_put_text(attempt.message, pools),
        deviation=attempt.deviation,
        notes=attempt.notes,
        ranks=[(key, [rank for _, rank in alike]) for key, alike in groupby(said, lambda one: one[0])],
    )
    return Try(attempt.start_method, attempt.first_failing_rank, _put(tried, pools.attempts))


def _put_rank(rank: RankEvidence, pools: Pools) -> str:
    end = f"{rank.error}\n"
    ends_with_error = bool(rank.error) and rank.traceback.endswith(end)
    frames, traceback = (rank.traceback.removesuffix(end), "") if ends_with_error else ("", rank.traceback)
    said = RankSaid(
        phase=rank.phase,
        exit=rank.exit,
        state=rank.state,
        stage=rank.stage,
        error=_put_text(rank.error, pools),
        frames=_put_text(telling(frames), pools),
        traceback=_put_text(telling(traceback), pools),
        stacks=_put_text(telling(rank.stacks), pools),
        output=_put_text(telling(rank.output), pools),
        mismatches=rank.mismatches,
        measurements=rank.measurements,
        notes=rank.notes,
    )
    return _put(said, pools.ranks)


def _put_text(text: str, pools: Pools) -> str:
    if not text:
        return ""
    pieces = _PIECES.split(text)
    return _put(text if len(pieces) == 1 else [_put(piece, pools.frames) for piece in pieces], pools.texts)


def _put(value: _Value, pool: dict[str, _Value]) -> str:
    """Return the key of a value in a pool: as much of its hash as no other value there has."""
    plain = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, sort_keys=True)
    digits = hashlib.sha256(plain.encode()).hexdigest()
    lengths = range(_KEY_LENGTH, len(digits) + 1)
    key = next(digits[:length] for length in lengths if pool.get(digits[:length], value) == value)
    pool[key] = value
    return key


def telling(text: str) -> str:
    """Return what tells something of a long text; doing it twice gives the same."""
    lines = _NOTHING.sub("", text).splitlines(keepends=True)
    if len(lines) > HEAD_LINES + TAIL_LINES + 1:
        left = len(lines) - HEAD_LINES - TAIL_LINES
        lines = [*lines[:HEAD_LINES], f"[{left} lines left out]\n", *lines[-TAIL_LINES:]]
    return "".join(_short(line) for line in lines)


def _short(line: str) -> str:
    end = "\n" if line.endswith("\n") else ""
    return line if len(line) <= LINE_LENGTH else f"{line[: LINE_LENGTH - 2]}…{end}"


# ---- reading -------------------------------------------------------------------------------------


def attempt_of(tried: Try, pools: Pools) -> Attempt:
    """Return an attempt with all that it refers to; DanglingError where that is not there."""
    found = _get(tried.attempt, "attempts", pools.attempts)
    return Attempt(
        status=found.status,
        start_method=tried.start_method,
        message=_get_text(found.message, pools),
        deviation=found.deviation,
        first_failing_rank=tried.first_failing_rank,
        notes=found.notes,
        ranks=[_rank(number, key, pools) for key, numbers in found.ranks for number in numbers],
    )


def _rank(number: int, key: str, pools: Pools) -> RankEvidence:
    said = _get(key, "ranks", pools.ranks)
    text: Callable[[str], str] = lambda key: _get_text(key, pools)  # noqa: E731 - it has a type this way
    error = text(said.error)
    traceback = f"{text(said.frames)}{error}\n" if said.frames else text(said.traceback)
    plain: dict[str, Any] = {
        name: getattr(said, name)
        for name in ("phase", "exit", "state", "stage", "mismatches", "measurements", "notes")
    }
    return RankEvidence(
        rank=number,
        error=error,
        traceback=traceback,
        stacks=text(said.stacks),
        output=text(said.output),
        **plain,
    )


def _get_text(key: str, pools: Pools) -> str:
    if not key:
        return ""
    found = _get(key, "texts", pools.texts)
    return found if isinstance(found, str) else "".join(_get(one, "frames", pools.frames) for one in found)


def _get(key: str, name: str, pool: dict[str, _Value]) -> _Value:
    if key not in pool:
        raise DanglingError(name, key)
    return pool[key]
