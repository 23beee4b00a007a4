"""The builds that a bisection looks at: the two ends as they were named, and what lies between.

Runs in nox's own process, so it imports no torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from packaging.version import Version

from canishard import releases
from canishard.errors import ConfigurationError
from canishard.releases import Release
from canishard.walk import nightlies


def candidates(good: str, bad: str) -> list[Release]:
    """Return the builds from one to the other, oldest first, both included: releases, or nightlies by date.

    An end may be a pre-release or a wheel too; what lies between are releases.
    """
    dates = [nightlies.is_date(side) for side in (good, bad)]
    rows = releases.load()
    if all(dates):
        days = nightlies.between(min(good, bad), max(good, bad), nightlies.listed(os.environ))
        found = releases.select(rows, days)
    elif any(dates):
        msg = f"--good {good} --bad {bad}: expected two releases, or two nightlies' dates"
        raise ConfigurationError(msg)
    else:
        ends = [_end(rows, f"--{name}", side) for name, side in (("good", good), ("bad", bad))]
        first, last = sorted(ends, key=lambda end: Version(end.version))
        between = [
            row for row in rows if Version(first.version) < Version(row.version) < Version(last.version)
        ]
        found = [first, *between, last]
    if found[0].version == found[-1].version:
        msg = f"--good {good} --bad {bad}: one and the same build, in which nothing can have changed"
        raise ConfigurationError(msg)
    return found


def _end(rows: Sequence[Release], option: str, said: str) -> Release:
    """Return the one build that an option names."""
    found = (
        releases.select(rows, [said], all_patches=True, option=option) if said != releases.INSTALLED else []
    )
    if len(found) != 1 or releases.is_specifier(said):
        msg = f"{option} {said}: expected one release, pre-release or wheel's path, or a nightly's date"
        raise ConfigurationError(msg)
    return found[0]
