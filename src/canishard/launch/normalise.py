"""Texts made the same from run to run and from machine to machine, before they are stored.

Ports, process and thread ids, addresses, dates, durations, temporary and install paths become words in
angle brackets. Every function is pure, and doing it twice gives the same text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from canishard.launch.outcome import Attempt, Outcome, RankEvidence

MESSAGE_LENGTH = 300
"""Characters kept of a message's first line."""

_PATH = r"[^\s'\"`<>(),;:\[\]]"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Escape sequences of terminals, then every control character but newline and tab.
        (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
        (r"[\x00-\x08\x0b-\x1f\x7f]", ""),
        # Python's own post-mortem lists every loaded C module, some 2,000 characters that say nothing.
        (r"(?m)^Extension modules: .*\n?", ""),
        # Paths, most specific first: ours, then installed packages, then Python's own library.
        (rf"(?:{_PATH}*/)?(?:src|site-packages|dist-packages)/canishard/", "<canishard>/"),
        (rf"(?:{_PATH}*/)?(?:site|dist)-packages/", "<site-packages>/"),
        (rf"(?<![\w.<]){_PATH}*/lib/python3\.\d+t?/", "<python>/"),
        # A temporary path keeps the last part of a file that has a suffix or a leading point.
        (
            rf"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)/(?:{_PATH}*/)?({_PATH}*\.{_PATH}+)",
            r"<tmp>/\1",
        ),
        (rf"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)/{_PATH}+", "<tmp>"),
        (rf"(?<![\w.<])/(?:home|Users)/{_PATH}+?/|(?<![\w.<])/root/", "<home>/"),
        # Log prefixes: [W1130 21:43:12.123456789 file.cpp:12], I1130 21:43:12.123456 4242 file.cc:12].
        (r"\b([IWEFC])\d{3,8} \d\d:\d\d:\d\d(?:\.\d+)?(?: +\d+(?= ))?", r"\1<date>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<date>"),
        # Peers and ports.
        (r"\[(127\.0\.0\.1|::1|localhost)\]:\d+", r"[\1]:<port>"),
        (r"\[(?:[0-9A-Fa-f:.%]*[:.][^\s\]]*|[\w.-]+)\]:\d{2,5}\b", "[<host>]:<port>"),
        (r"\b(127\.0\.0\.1|localhost):\d+", r"\1:<port>"),
        (r"\b(\d{1,3}(?:\.\d{1,3}){3}):\d+", "<host>:<port>"),
        (r"\b([Pp]orts?)(\s*[:=]?\s*)\d{2,5}\b", r"\1\2<port>"),
        # Processes, threads and addresses.
        (r"\b(pid|PID|Pid|tid|TID|thread_id|process id|Process id)(\s*[:=]?\s*)\d+", r"\1\2<id>"),
        (r"\b([Pp]rocess|[Tt]hread) \d{2,}\b", r"\1 <id>"),
        (r"(?<![\d.])(?:1[234]\d{13}|28\d{13})(?![\d.])", "<id>"),
        (r"\b0x[0-9a-fA-F]{5,}\b", "<address>"),
        # Durations with their unit.
        (r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?\s?(?:ns|us|µs|ms|s|secs?|seconds?|minutes?)\b", "<time>"),
    )
)


def text(value: str, known: Mapping[str, str] | None = None) -> str:
    """Return a text without what changes from run to run.

    ``known`` maps texts of this machine or run, such as a case's directory or the host's name, to what
    stands for them; the longest is replaced first, all before the rules.
    """
    # What a rank printed need not be UTF-8; half a surrogate pair cannot be stored.
    value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    for literal in sorted(known or {}, key=len, reverse=True):
        value = value.replace(literal, (known or {})[literal])
    for pattern, replacement in _RULES:
        value = pattern.sub(replacement, value)
    return value


def message(value: str, known: Mapping[str, str] | None = None) -> str:
    """Return the first line that is not blank, normalised, at most ``MESSAGE_LENGTH`` characters."""
    lines = (line.strip() for line in text(value, known).splitlines())
    first = next((line for line in lines if line), "")
    return first if len(first) <= MESSAGE_LENGTH else f"{first[: MESSAGE_LENGTH - 1]}…"


def number(value: Any) -> Any:
    """Return a float that JSON has no word for as text (``nan``, ``inf``), everything else as it is."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def outcome(value: Outcome, known: Mapping[str, str] | None = None) -> Outcome:
    """Return an outcome whose texts and numbers can be stored and compared."""
    return msgspec.structs.replace(
        value,
        message=message(value.message, known),
        deviation=message(value.deviation, known),
        notes=[message(note, known) for note in value.notes],
        measurements=_values(value.measurements, known),
        attempts=[_attempt(attempt, known) for attempt in value.attempts],
    )


def _values(values: Mapping[str, Any], known: Mapping[str, str] | None) -> dict[str, Any]:
    return {key: text(item, known) if isinstance(item, str) else number(item) for key, item in values.items()}


def _attempt(value: Attempt, known: Mapping[str, str] | None) -> Attempt:
    return msgspec.structs.replace(
        value,
        message=message(value.message, known),
        deviation=message(value.deviation, known),
        notes=[message(note, known) for note in value.notes],
        ranks=[_rank(rank, known) for rank in value.ranks],
    )


def _rank(value: RankEvidence, known: Mapping[str, str] | None) -> RankEvidence:
    return msgspec.structs.replace(
        value,
        error=text(value.error, known),
        traceback=text(value.traceback, known),
        stacks=text(value.stacks, known),
        output=text(value.output, known),
        mismatches=[_values(mismatch, known) for mismatch in value.mismatches],
        measurements=_values(value.measurements, known),
        notes=[message(note, known) for note in value.notes],
    )
