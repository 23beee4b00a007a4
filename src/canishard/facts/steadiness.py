"""How steady the suite is: what came of measuring one build of torch several times in a row.

Written by ``nox -s repeat -- --out FILE``, shown by the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from canishard import files


class Steadiness(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Several runs of one build, each compared with the first."""

    torch: str
    """``torch.__version__``."""
    date: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
    """The day of the last run."""
    runs: Annotated[int, msgspec.Meta(ge=2)]
    cells: Annotated[int, msgspec.Meta(ge=1)]
    """Cells of a run."""
    differing: list[str]
    """Each cell of a later run that was not what it was in the first one, in words."""

    def __str__(self) -> str:
        """Return it as ``0 of 1300 cells differed in 10 runs of torch 2.13.0+cpu, 2026-12-01``."""
        compared = self.cells * (self.runs - 1)
        words = f"{len(self.differing)} of {compared} cells differed from the first run"
        return f"{words}, {self.runs} runs of torch {self.torch}, {self.date}"


def save(found: Steadiness, path: Path) -> None:
    """Write it as JSON, under a temporary name that is then renamed."""
    files.replace(path, msgspec.json.format(msgspec.json.encode(found)) + b"\n")


def load(path: Path) -> Steadiness | None:
    """Read it; None where there is no file, RecordError in one line where it says something else."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return files.decode(content, Steadiness, path.name)
