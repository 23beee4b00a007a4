"""What is generated and committed stays small: today, and with as many rows and failures as are to come."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from made_up import canaries, outcome, record

from canishard import files, report
from canishard import record as record_files
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record

TODAY, TO_COME = 1_500_000, 20_000_000
RELEASES, CELLS, FAILING = 12, 2_500, 600
ROOT = files.checkout()
FAILURES = [
    cell
    for found in record_files.load_all(ROOT / "matrix" / "results")
    for cell in found.cells
    if cell.attempts and cell.status is not Status.PASS
]
"""What the committed records hold: what was wrong, refused, raised, and died."""


def sizes(root: Path) -> dict[str, int]:
    """Return the size of each generated file that is committed."""
    records = [path for path in (root / "matrix" / "results").rglob("*") if path.is_file()]
    return {
        **{path.name: path.stat().st_size for path in records},
        **{path.as_posix(): len(content) for path, content in report.committed(root).items()},
    }


def test_what_is_committed_is_small() -> None:
    found = sizes(ROOT)
    assert sum(found.values()) < TODAY, found


LAYOUTS = ["replicate", "shard_0", "shard_1", "uneven", "partial"]
OPERATORS = ["add", "softmax", "index_select", "nn.functional.conv2d", "scaled_dot_product_attention"]


def row(number: int) -> str:
    layout, operator = LAYOUTS[number % 5], OPERATORS[number // 5 % 5]
    return f"dtensor.operator[layout={layout},op={operator}_{number // 25}]"


def varied(template: Outcome, case_id: str, world_size: int, seed: str) -> Outcome:
    """Return a failure of another row: its messages, numbers and the lines of its check are its own."""
    source = random.Random(seed)  # noqa: S311 - made-up values
    digits = "".join(source.choices("123456789", k=10))
    name, line = case_id.partition("op=")[2].rstrip("]"), source.randint(1, 300)

    def text(value: str) -> str:
        value = re.sub(r'(checks/\w+\.py", line )\d+', rf"\g<1>{line}", value)
        return value.replace("Error: ", f"Error: aten.{name}.default: ")

    def value(found: object) -> object:
        is_numbers = isinstance(found, str) and found.startswith("[")
        return found.translate(str.maketrans("0123456789", digits)) if is_numbers else found  # type: ignore[attr-defined]

    attempts = []
    for attempt in template.attempts:
        ranks = [
            msgspec.structs.replace(
                rank,
                error=text(rank.error),
                traceback=text(rank.traceback),
                output=text(rank.output),
                mismatches=[
                    {key: value(one) for key, one in mismatch.items()} for mismatch in rank.mismatches
                ],
            )
            for rank in attempt.ranks
        ]
        attempts.append(msgspec.structs.replace(attempt, message=text(attempt.message), ranks=ranks))
    return msgspec.structs.replace(
        template, id=case_id, world_size=world_size, message=text(template.message), attempts=attempts
    )


def made_up_records() -> Iterator[Record]:
    """Yield records of as many releases, cells and failures as are to come; a row fails alike on several releases."""
    keys = [(row(number), size) for number in range(CELLS // 2) for size in (2, 4)]
    source = random.Random(12)  # noqa: S311 - made-up values
    for release in range(RELEASES):
        failing = set(source.sample(keys, FAILING))
        cells = [
            varied(source.choice(FAILURES), *key, seed=f"{release} {key}")
            if key in failing
            else outcome(*key)
            for key in keys
        ]
        yield record(*canaries(), *cells, channel=f"2.{release + 4}.0")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large")
    for found in made_up_records():
        record_files.save(found, root / "matrix" / "results" / f"{found.name}.json")
    for name in ("quirks", "claims", "releases"):
        content = (files.matrix_dir() / f"{name}.toml").read_bytes()
        (root / "matrix" / f"{name}.toml").write_bytes(content)
    return root


def test_what_is_committed_stays_small_with_many_more_rows(large: Path) -> None:
    found = sizes(large)
    assert sum(found.values()) < TO_COME, sorted(found.items(), key=lambda item: -item[1])[:6]
    assert {"reports/canishard.json", "reports/COMPATIBILITY.md"} <= found.keys()
    assert sum(name.endswith(".evidence.json") for name in found) == RELEASES


def test_the_failures_were_kept(large: Path) -> None:
    found = record_files.load(min((large / "matrix" / "results").glob("torch-2.4.0-*64.json")))
    failing = [cell for cell in found.cells if cell.status is not Status.PASS]
    assert len(failing) == FAILING
    assert all(cell.attempts for cell in failing)
