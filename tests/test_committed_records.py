"""The committed records: they can be read, and the facts that the project began with show in them."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from canishard import files, record
from canishard.facts import quirks
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record

COMMITTED = record.load_all(files.matrix_dir() / "results")
RECORDS = [
    found
    for found in COMMITTED
    if found.environment.is_stable
    and (found.environment.backend, found.environment.device) == ("gloo", "cpu")
]
GRADIENTS = "fsdp2.gradients[reduce=default]"
ALL_BUT_SUM = ["avg", "product", "min", "max", "band", "bor", "bxor"]
# Case, releases, status, what the deviation or the message holds; gloo on CPU, x86-64, wheels from PyPI.
FACTS = [
    *(
        (f"collectives.reduce_scatter_tensor[op={op}]", "<2.9", "wrong", f"sum instead of {op}")
        for op in ALL_BUT_SUM
    ),
    *((f"collectives.reduce_scatter_tensor[op={op}]", ">=2.9.1", "pass", "") for op in ALL_BUT_SUM),
    *((f"collectives.reduce_scatter[op={op}]", "<2.8", "unsupported", "") for op in [*ALL_BUT_SUM, "sum"]),
    *(
        (f"collectives.reduce_scatter[op={op}]", "==2.8.0", "wrong", f"sum instead of {op}")
        for op in ALL_BUT_SUM
    ),
    *((f"collectives.reduce_scatter[op={op}]", ">=2.9.1", "pass", "") for op in ALL_BUT_SUM),
    ("collectives.reduce_scatter[op=sum]", ">=2.8", "pass", ""),
    ("collectives.reduce_scatter_tensor[op=sum]", ">=2.4", "pass", ""),
    ("collectives.all_reduce[op=avg]", "<2.8", "unsupported", "Cannot use ReduceOp.AVG with Gloo"),
    ("collectives.all_reduce[op=avg]", ">=2.8", "pass", ""),
    (GRADIENTS, "==2.6.0", "error", "'Stream' object has no attribute 'record_event'"),
    (GRADIENTS, "==2.7.1", "wrong", "summed instead of averaged"),
    (GRADIENTS, "==2.8.0", "wrong", "summed instead of averaged"),
    (GRADIENTS, ">=2.9.1", "pass", ""),
    ("fsdp2.gradients+force_sum", "<2.8", "missing", ""),
    ("fsdp2.gradients+force_sum", ">=2.8", "pass", ""),
    ("pp.gpipe", "==2.9.1", "crash", "SIGABRT"),
    ("pp.gpipe", ">=2.6,<2.9", "pass", ""),
    ("pp.gpipe", ">=2.10", "pass", ""),
]


def cells(case_id: str, releases: str) -> list[tuple[Record, list[Outcome]]]:
    """Return a case's cells, at every world size, of each committed record of some releases."""
    wanted = SpecifierSet(releases)
    chosen = [found for found in RECORDS if found.environment.channel in wanted]
    if not chosen:
        pytest.skip(f"no record of a release {releases} is committed")
    return [(found, [cell for cell in found.cells if cell.id == case_id]) for found in chosen]


@pytest.mark.parametrize("found", COMMITTED, ids=lambda found: found.name)
def test_what_measured_a_record_can_be_looked_up(found: Record) -> None:
    record.require_clean(found)


@pytest.mark.parametrize(("case_id", "releases", "status", "words"), FACTS)
def test_what_was_known_before_the_first_line(case_id: str, releases: str, status: str, words: str) -> None:
    for found, own in cells(case_id, releases):
        assert own, f"{found.name} does not have it"
        for cell in own:
            assert cell.status is Status(status), f"{found.name} at world size {cell.world_size}"
            assert words in f"{cell.deviation}\n{cell.message}"


@pytest.mark.parametrize("release", ["2.7.1", "2.8.0"])
def test_fsdp2_gradients_are_world_size_times_too_large(release: str) -> None:
    for found, own in cells(GRADIENTS, f"=={release}"):
        assert [cell.world_size for cell in own] == [2, 4], found.name
        for cell in own:
            assert cell.measurements["gradient_norm_ratio"] == pytest.approx(cell.world_size, rel=1e-5)


def test_every_quirk_stands_for_cases_that_are_there() -> None:
    if not RECORDS:
        pytest.skip("no record is committed")
    case_ids = sorted({cell.id for found in RECORDS for cell in found.cells})
    assert quirks.unmatched(quirks.load(), case_ids) == []
