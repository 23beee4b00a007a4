"""What a release costs beyond running each of its rows once: the servers, what is repeated, what is confirmed.

Measured on made-up rows and scaled to a release of 1,500, of which 300 do not pass; never imports torch.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict

import msgspec

from canishard.launch import Launcher, Where, refusals, stretches
from canishard.launch.launcher import SPAWNED
from canishard.launch.outcome import Attempt, Case, Status

ROWS, NON_PASSES = 1500, 300
MOST_SHARE, MOST_S = 0.25, 20.0
"""The goal: at most this share of what the rows take once, and these seconds besides."""


class Cost(msgspec.Struct, frozen=True):
    """Seconds that some rows took, by what they went into."""

    rows: int
    non_passes: int
    once_s: float
    """Each row once."""
    again_s: float
    """Each that did not pass once more, under the second server."""
    sample_s: float
    """The sample: passes under the second server, and the spawned few."""
    servers_s: float
    """All servers but the first, without which no row runs."""

    @property
    def whole_s(self) -> float:
        """Return the seconds of a release's rows, each once."""
        return self.once_s * ROWS / self.rows

    @property
    def repeats_s(self) -> float:
        """Return the seconds of a release's repeats."""
        return self.again_s * NON_PASSES / self.non_passes

    @property
    def fixed_s(self) -> float:
        """Return the seconds that do not grow with the rows."""
        return self.sample_s + self.servers_s

    @property
    def is_met(self) -> bool:
        """Tell whether the goal is met."""
        return self.repeats_s + self.fixed_s <= MOST_SHARE * self.whole_s + MOST_S


class _Timed(Launcher):
    """A launcher that tells what its attempts took, and those of its servers."""

    seconds: defaultdict[str, float]

    def _attempt(self, case: Case, slot: str, start_method: str) -> Attempt:
        began = time.monotonic()
        attempt = super()._attempt(case, slot, start_method)
        starting = self.take_spent().get(stretches.SERVER, 0.0)
        is_sample = slot == "spawn" or (slot == "second" and attempt.status is Status.PASS)
        kind = "once" if slot == "first" else "sample" if is_sample else "again"
        self.seconds[kind] += time.monotonic() - began - starting
        self.seconds["servers"] += starting
        return attempt


def measure_once() -> Cost:
    """Run the made-up rows as a release's are run."""
    launcher = _Timed(Where(), refusals.load().rules, modules=["benchmarks.rows"])
    with launcher:
        cases = launcher.cases()
        launcher.choose_sample(cases)
        launcher.spawned = frozenset(sorted(launcher.sampled)[:SPAWNED])  # They are all of one family.
        launcher.seconds = defaultdict(float)
        launcher.take_spent()
        statuses = Counter(launcher.run(case).status for case in cases)
    seconds = launcher.seconds
    assert not statuses.keys() & {Status.INFRA, Status.FLAKY, Status.HANG, Status.CRASH}, statuses
    return Cost(
        rows=len(cases),
        non_passes=len(cases) - statuses[Status.PASS],
        once_s=seconds["once"],
        again_s=seconds["again"],
        sample_s=seconds["sample"],
        servers_s=seconds["servers"],
    )


def measure(rounds: int) -> list[Cost]:
    """Return a cost a round, after one that only warms."""
    found = []
    for number in range(rounds + 1):
        cost = measure_once()
        print(
            f"release: {ROWS} rows once {cost.whole_s:.0f} s, {NON_PASSES} again {cost.repeats_s:.0f} s, "
            f"fixed {cost.fixed_s:.1f} s (servers {cost.servers_s:.1f}, sample {cost.sample_s:.1f})",
            flush=True,
        )
        if number:
            found.append(cost)
    return found
