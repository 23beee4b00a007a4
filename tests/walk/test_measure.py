"""One measurement into a folder: only what it wrote is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from made_up import canaries, environment, outcome, record

from canishard import record as record_files
from canishard.errors import InfraError
from canishard.launch.outcome import Status
from canishard.record import Record
from canishard.walk import measure as measuring

OLD, NEW = (record(*canaries(), outcome("family.subject", status=status)) for status in ("pass", "crash"))
OTHER = record(*canaries(), environment=environment(backend="mpi"))


class Nox:
    """Leaves a record, if it is given one."""

    def __init__(self, leaves: Record | None) -> None:
        self.leaves = leaves
        self.calls = 0

    def __call__(self, command: Sequence[str], _environ: Mapping[str, str], log: Path) -> int:
        self.calls += 1
        log.write_text("collected\n")
        if self.leaves:
            folder = Path(command[command.index("--record") + 1])
            record_files.save(self.leaves, folder / f"{self.leaves.name}.json")
        return 0


@pytest.fixture(autouse=True)
def _index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANISHARD_TORCH_INDEX", "pypi")


def left_by_an_earlier_run(folder: Path, *records: Record) -> None:
    for left in records:
        record_files.save(left, folder / f"{left.name}.json")
    (folder / "journal").mkdir(parents=True)
    (folder / "journal" / "torch.jsonl").write_text("{}\n")


@pytest.mark.parametrize("left", [[OLD], [OTHER], [OLD, OTHER]], ids=["same", "other backend", "both"])
def test_what_lies_there_is_not_this_runs_record(tmp_path: Path, left: list[Record]) -> None:
    left_by_an_earlier_run(tmp_path, *left)
    nox = Nox(NEW)

    found = measuring.measure("checks(1)", tmp_path, tmp_path, nox)

    assert nox.calls == 1
    assert {cell.status for cell in found.cells} == {Status.PASS, Status.CRASH}
    assert not (tmp_path / "journal").exists()
    assert record_files.load_all(tmp_path) == [NEW]


def test_a_run_without_a_record_does_not_take_another_ones(tmp_path: Path) -> None:
    left_by_an_earlier_run(tmp_path, OLD)

    with pytest.raises(InfraError, match=r"checks\(1\) left no record: collected"):
        measuring.measure("checks(1)", tmp_path, tmp_path, Nox(None))


def test_a_run_that_is_gone_on_from_is_taken_as_it_is(tmp_path: Path) -> None:
    left_by_an_earlier_run(tmp_path, OLD)
    nox = Nox(NEW)

    assert measuring.measure("checks(1)", tmp_path, tmp_path, nox, resume=True) == OLD
    assert nox.calls == 0


def test_a_journal_is_gone_on_from(tmp_path: Path) -> None:
    left_by_an_earlier_run(tmp_path)
    nox = Nox(NEW)

    measuring.measure("checks(1)", tmp_path, tmp_path, nox, resume=True)

    assert nox.calls == 1
    assert (tmp_path / "journal" / "torch.jsonl").exists()


def test_what_is_not_a_runs_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("mine")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / f"{OLD.name}.json").write_text("mine")

    measuring.clear(tmp_path)

    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["notes.json", f"{OLD.name}.json"]


def test_clearing_a_folder_that_is_not_there(tmp_path: Path) -> None:
    measuring.clear(tmp_path / "none")
    assert not (tmp_path / "none").exists()
