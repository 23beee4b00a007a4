"""How long the site takes to render, from made-up records, a third of whose cells fail. Never imports torch."""

from __future__ import annotations

import time

from canishard import catalogue, releases
from canishard.facts import claims, quirks, support
from canishard.launch.outcome import Attempt, Outcome, RankEvidence, Status
from canishard.record import Record, Suite
from canishard.record.environment import Environment, Variant
from canishard.report import site

ROWS = 1000
FEW, MANY = 5, 20
"""Numbers of releases."""


def record(number: int, rows: list[str]) -> Record:
    """Return the record of a release."""
    channel = f"2.{4 + number // 2}.{number % 2}"
    place = Environment(
        channel=channel, flavour="cpu", backend="gloo", device="cpu", python="3.11", system="linux", machine="x86_64"
    )  # fmt: skip
    build = Variant(
        torch=f"{channel}+cpu", git_version=f"{number:040x}", cuda=None, nccl=None, python="3.11.9", glibc="2.36",
        packages={"numpy": "2.0.0"},
    )  # fmt: skip
    return Record(
        environment=place,
        variant=build,
        suite=Suite(version="0", commit=""),
        started="2026-01-31T12:00:00Z",
        ended="2026-01-31T12:30:00Z",
        start_method="fork",
        cells=[cell(row, (index + number) % 3 == 0) for index, row in enumerate(rows)],
    )


def cell(row: str, is_failing: bool) -> Outcome:
    """Return a cell; one that fails has the evidence of two ranks in two attempts."""
    if not is_failing:
        return Outcome(id=row, world_size=2, digest="0" * 16, status=Status.PASS)
    message = f"RuntimeError: {row} does not work"
    ranks = [
        RankEvidence(rank=rank, phase="body", error=message, traceback="  File\n" * 20) for rank in (0, 1)
    ]
    attempt = Attempt(status=Status.ERROR, start_method="fork", message=message, ranks=ranks)
    return Outcome(
        id=row,
        world_size=2,
        digest="0" * 16,
        status=Status.ERROR,
        message=message,
        attempts=[attempt, attempt],
    )


def render_s(number: int) -> float:
    """Return the seconds that all pages of so many releases take, scripts of rows included."""
    entries = list(catalogue.load().values())
    rows = [f"{entries[index % len(entries)].family}.made_up_{index}[op=sum]" for index in range(ROWS)]
    records = [record(each, rows) for each in range(number)]
    versions = [one.environment.channel for one in records]
    began = time.perf_counter()
    pages = site.files(
        site.Site(
            records=records,
            releases=releases.load(),
            quirks=quirks.load(),
            catalogue={row: entries[index % len(entries)] for index, row in enumerate(rows)},
            claims=claims.load(),
            supports=support.support(records, versions),
        )
    )
    took = time.perf_counter() - began
    assert len(pages) > 2 * ROWS
    return took


def measure(rounds: int) -> dict[str, list[float]]:
    """Return seconds by the number of releases, in turn in each round."""
    found: dict[str, list[float]] = {str(FEW): [], str(MANY): []}
    for number in range(rounds + 1):
        for releases_ in (FEW, MANY):
            took = render_s(releases_)
            print(f"site of {ROWS} rows on {releases_} releases: {took:.1f} s", flush=True)
            if number:
                found[str(releases_)].append(took)
    return found
