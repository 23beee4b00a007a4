"""``reports/BENCHMARKS.md`` from measured blocks: pure. Ratios, not seconds, since seconds are one machine's."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from tabulate import tabulate

from benchmarks import pages, release
from benchmarks.bodies import NAMES
from benchmarks.harnesses import CONTINUOUS, ENTRIES, FORK, PER_TEST, WORLD_SIZE

CASES = 100
"""Cases that a total is of."""
SPAWN_FACTOR, MOST_OVERHEAD_S, SHARED_FACTOR = 30.0, 0.15, 1.3
"""The goals: how much faster than a spawn a test, seconds of overhead a case, and the total beside shared ranks."""
SITE_GOAL_S = 10.0


class Block(msgspec.Struct, frozen=True):
    """Some cases of one body under one harness, run by a process of its own."""

    round: int
    harness: str
    body: str
    total_s: float
    """From the start of that process to its end."""
    cases_s: list[float]
    bodies_s: list[float]
    """Of each case, the body's seconds on its slowest rank."""
    spent_s: list[dict[str, float]] = []
    """Of each case, the seconds of each stretch, where the harness tells."""

    @property
    def case_s(self) -> float:
        """Return the median case."""
        return statistics.median(self.cases_s)

    @property
    def body_s(self) -> float:
        """Return the median of the body."""
        return statistics.median(self.bodies_s)

    @property
    def overhead_s(self) -> float:
        """Return the median of what a case takes beside its body."""
        return statistics.median(case - body for case, body in zip(self.cases_s, self.bodies_s, strict=True))

    @property
    def total_of_cases_s(self) -> float:
        """Return what ``CASES`` cases take in all; extrapolated by the median where fewer were run."""
        return self.total_s + (CASES - len(self.cases_s)) * self.case_s


class Run(msgspec.Struct, frozen=True):
    """All that was measured in one go, and where."""

    torch: str
    python: str
    cores: int
    blocks: list[Block]
    site_s: dict[str, list[float]] = {}
    """Seconds to render the site, a value a round, by the number of releases; empty where it was not measured."""
    releases: list[release.Cost] = []
    """What a release costs, a value a round."""


@dataclass(frozen=True)
class Figure:
    """The median over rounds, with the least and the greatest."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        """Sum up one value a round."""
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1])

    def __str__(self) -> str:
        """Return the figure with two digits that count."""
        return f"{_digits(self.median)} ({_digits(self.least)} to {_digits(self.greatest)})"


def _digits(value: float) -> str:
    if value >= 10:  # noqa: PLR2004 - from here on a point adds nothing
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


class Measured:
    """The blocks of a run, by round, harness and body."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rounds = sorted({block.round for block in run.blocks})
        self.harnesses = [name for name in ENTRIES if any(block.harness == name for block in run.blocks)]
        self.bodies = [name for name in NAMES if any(block.body == name for block in run.blocks)]
        self._blocks = {(block.round, block.harness, block.body): block for block in run.blocks}

    def blocks(self, harness: str, body: str) -> list[Block]:
        """Return a harness's blocks of a body, one a round."""
        return [self._blocks[number, harness, body] for number in self.rounds]

    def ratio(self, of: Callable[[Block], float], harness: str, other: str, body: str) -> Figure:
        """Return how many times one harness's value is another's, compared within each round."""
        pairs = zip(self.blocks(harness, body), self.blocks(other, body), strict=True)
        return Figure.of(of(one) / of(two) for one, two in pairs)

    def value(self, of: Callable[[Block], float], harness: str, body: str) -> Figure:
        """Return a harness's own value."""
        return Figure.of(of(block) for block in self.blocks(harness, body))


def _case(block: Block) -> float:
    return block.case_s


def _total(block: Block) -> float:
    return block.total_of_cases_s


def _overhead(block: Block) -> float:
    return block.overhead_s


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    alignment = ["left", *["right"] * (len(heads) - 1)]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True, colalign=alignment)


def ratios(measured: Measured, of: Callable[[Block], float]) -> str:
    """Return a table of every harness's value as a multiple of the forked launcher's."""
    rows = [
        [ENTRIES[name].title, *(
            "1" if name == FORK else str(measured.ratio(of, name, FORK, body)) for body in measured.bodies
        )]
        for name in measured.harnesses
    ]  # fmt: skip
    return table(["harness", *map(_spoken, measured.bodies)], rows)


def stretches(measured: Measured) -> str:
    """Return a table of what share of a forked case each stretch has."""
    spent = {
        body: [spent for block in measured.blocks(FORK, body) for spent in block.spent_s]
        for body in measured.bodies
    }
    names = list(dict.fromkeys(name for cases in spent.values() for case in cases for name in case))
    totals = {body: sum(sum(case.values()) for case in cases) for body, cases in spent.items()}
    rows = [
        [name, *(
            f"{100 * sum(case.get(name, 0.0) for case in spent[body]) / totals[body]:.0f} %"
            for body in measured.bodies
        )]
        for name in names
    ]  # fmt: skip
    return table(["stretch", *map(_spoken, measured.bodies)], rows)


def goals(measured: Measured) -> str:
    """Return a table of the goals, what was measured, and whether that meets them for every body."""
    faster = [measured.ratio(_case, PER_TEST, FORK, body) for body in measured.bodies]
    overhead = [measured.value(_overhead, FORK, body) for body in measured.bodies]
    total = [measured.ratio(_total, FORK, CONTINUOUS, body) for body in measured.bodies]
    rows = [
        [f"a case at least {SPAWN_FACTOR:.0f} times faster than under {ENTRIES[PER_TEST].title}",
         *map(str, faster), _met(figure.median >= SPAWN_FACTOR for figure in faster)],
        [f"at most {MOST_OVERHEAD_S} s of overhead a case at {WORLD_SIZE} ranks (seconds on this machine)",
         *map(str, overhead), _met(figure.median <= MOST_OVERHEAD_S for figure in overhead)],
        [f"{CASES} cases in at most {SHARED_FACTOR} times what they take under {ENTRIES[CONTINUOUS].title}",
         *map(str, total), _met(figure.median <= SHARED_FACTOR for figure in total)],
    ]  # fmt: skip
    return table(["goal", *map(_spoken, measured.bodies), "met"], rows)


def bounds(measured: Measured) -> str:
    """Return a table of what the goals' ratios would be if forked cases took no longer than their bodies."""
    faster, total = [], []
    for body in measured.bodies:
        forked, tested, shared = (measured.blocks(name, body) for name in (FORK, PER_TEST, CONTINUOUS))
        faster.append(Figure.of(two.case_s / one.body_s for one, two in zip(forked, tested, strict=True)))
        total.append(
            Figure.of(
                CASES * one.body_s / two.total_of_cases_s for one, two in zip(forked, shared, strict=True)
            )
        )
    rows = [
        [f"a case, times faster than under {ENTRIES[PER_TEST].title}", *map(str, faster)],
        [f"{CASES} cases, as a multiple of {ENTRIES[CONTINUOUS].title}", *map(str, total)],
    ]
    return table(["bound", *map(_spoken, measured.bodies)], rows)


def _met(holds: Iterable[bool]) -> str:
    found = list(holds)
    if all(found):
        return "yes"
    return f"in {sum(found)} of {len(found)}" if any(found) else "no"


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def site(run: Run) -> str:
    """Return what is said of rendering the site; empty where it was not measured."""
    if not run.site_s:
        return ""
    few, many = run.site_s[str(pages.FEW)], run.site_s[str(pages.MANY)]
    grows = Figure.of(two / one for one, two in zip(few, many, strict=True))
    met = _met(seconds <= SITE_GOAL_S for seconds in many)
    return f"""
## The site

{pages.ROWS} rows on {pages.MANY} releases, a third of the cells failing, all pages and scripts. The goal, {SITE_GOAL_S:.0f} s: {met}. Beside
{pages.FEW} releases, a quarter of them, it takes {grows} times as long.
"""


def of_a_release(costs: Sequence[release.Cost]) -> str:
    """Return what is said of a release's cost, a value a round; empty where it was not measured."""
    if not costs:
        return ""
    whole, again, fixed, servers, sample = (
        Figure.of(getattr(cost, name) for cost in costs)
        for name in ("whole_s", "repeats_s", "fixed_s", "servers_s", "sample_s")
    )
    share = Figure.of(100 * cost.repeats_s / cost.whole_s for cost in costs)
    return f"""
## A release

{release.ROWS} rows, {release.NON_PASSES} of which do not pass, as the record before said; scaled from {costs[0].rows} trivial rows. Seconds on this
machine: each row once {whole}; those that do not pass once more, under the second server, {again}, which is
{share} % of that; what does not grow with the rows {fixed}: starting the second server and the one that spawns
{servers}, the sample {sample}. The goal, at most {100 * release.MOST_SHARE:.0f} % and {release.MOST_S:.0f} s beyond each row once: {_met(cost.is_met for cost in costs)}. A crash, a
hang or a changed row is spawned once more besides.
"""


def with_section(page: str, section: str) -> str:
    """Return a page with a section in place of the one of its title; where there is none, before the last section."""
    title = section.strip().partition("\n")[0]
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    places = [index for index, part in enumerate(parts) if part.startswith(f"{title}\n")]
    place = places[0] if places else len(parts) - 1
    parts[place : place + len(places)] = [f"{section.strip()}\n\n"]
    return "".join(parts)


def render(run: Run) -> str:
    """Return the page."""
    measured = Measured(run)
    counts = {
        is_slow: max((len(block.cases_s) for block in run.blocks if ENTRIES[block.harness].is_slow is is_slow), default=0)
        for is_slow in (False, True)
    }  # fmt: skip
    return f"""# Benchmarks

Written by `nox -s bench`; not to be edited. torch {run.torch}, Python {run.python}, {run.cores} cores, {WORLD_SIZE} ranks, gloo.

The same function runs on an initialised process group under every harness, one after the other in each of {len(measured.rounds)}
rounds, after a round that is not counted: bytecode and caches are warm. One thread a rank. A figure is the median over
rounds, with the least and the greatest in brackets; a case's time is the median of {counts[False]} cases a round, of
{counts[True]} where every case starts interpreters. Ratios are taken within a round.

## The goals

{goals(measured)}

A new rank runs the body for the first time in its process: torch fills its caches, and a forked rank copies each page of
memory that it is the first to write to. Shared ranks do so once. With no overhead at all, and no server to start, the
ratios would be:

{bounds(measured)}

## A case

How many times as long as under canishard's forked launcher; every harness starts new ranks for it, but for the one
that shares them.

{ratios(measured, _case)}

## {CASES} cases

From the start of the parent's interpreter to its end, as a multiple of canishard's forked launcher, which looks at what
is installed and collects the cases first. Extrapolated from {counts[True]} cases where every case starts interpreters.

{ratios(measured, _total)}

## Overhead

What a case takes beside the body on its slowest rank, as a multiple of canishard's forked launcher.

{ratios(measured, _overhead)}

## Where a forked case's time goes

Starting the ranks' processes; imports in them; joining the group; the body, until all have reported; leaving; killing what is
left and removing files. Each stretch ends when the last rank gets there.

{stretches(measured)}
{of_a_release(run.releases)}{site(run)}"""
