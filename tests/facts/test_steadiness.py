"""How steady the suite is: the file, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from canishard.errors import RecordError
from canishard.facts import steadiness
from canishard.facts.steadiness import Steadiness

FOUND = Steadiness(
    torch="2.8.0+cpu", date="2026-11-30", runs=3, cells=10, differing=["run 2: regressed: a.b"]
)


def test_round_trip(tmp_path: Path) -> None:
    steadiness.save(FOUND, tmp_path / "flakes" / "flakes.json")
    assert steadiness.load(tmp_path / "flakes" / "flakes.json") == FOUND
    assert steadiness.load(tmp_path / "none.json") is None


def test_words() -> None:
    said = "1 of 20 cells differed from the first run, 3 runs of torch 2.8.0+cpu, 2026-11-30"
    assert str(FOUND) == said


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b'{"runs": 1}'])
def test_a_faulty_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "flakes.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"^flakes\.json: ") as raised:
        steadiness.load(path)
    assert "\n" not in str(raised.value)
