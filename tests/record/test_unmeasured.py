"""What could not be measured is kept with its reason, once, and goes when there is a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up import canaries, record, saved

from canishard.errors import RecordError
from canishard.record import unmeasured
from canishard.record.unmeasured import FILE, Unmeasured, keep, load, without_record

ARGUMENTS = ["--backend=gloo", "--device=cpu", "-k", "fsdp2"]
REASON = "No solution found when resolving dependencies / torch==9.1.0 has no wheel"


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        days = iter(["2026-01-01", "2026-01-02", "2026-01-03"])

        @classmethod
        def now(cls, _zone: object) -> Clock:
            return cls()

        def date(self) -> Clock:
            return self

        def isoformat(self) -> str:
            return next(self.days)

    monkeypatch.setattr(unmeasured, "datetime", Clock)


def entry(release: str = "9.1.0", **more: str) -> Unmeasured:
    fields = {"python": "3.11", "backend": "gloo", "device": "cpu", "reason": REASON, "day": "2026-01-01"}
    return Unmeasured(release=release, **{**fields, **more})


def test_a_release_that_cannot_be_installed_leaves_its_reason(tmp_path: Path) -> None:
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, REASON)
    assert load(tmp_path) == [entry()]


def test_the_same_reason_on_another_day_changes_nothing_and_another_reason_does(tmp_path: Path) -> None:
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, REASON)
    before = (tmp_path / FILE).read_bytes()
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, REASON)
    assert (tmp_path / FILE).read_bytes() == before
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, "cannot import torch")
    assert load(tmp_path) == [entry(reason="cannot import torch", day="2026-01-03")]


def test_what_is_of_the_machine_is_taken_out_of_the_reason(tmp_path: Path) -> None:
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, "failed: /tmp/once-9.1.0/x.whl\nsecond line")
    assert [one.reason for one in load(tmp_path)] == ["failed: <tmp>/x.whl"]


def test_entries_are_in_order_of_release_and_apart_by_python_backend_and_device(tmp_path: Path) -> None:
    for release, python, backend in (
        ("9.10.0", "3.11", "gloo"),
        ("9.2.0", "3.12", "gloo"),
        ("9.2.0", "3.11", "mpi"),
    ):
        keep(tmp_path, release, python, [f"--backend={backend}"], REASON)
    assert [one.key for one in load(tmp_path)] == [
        ("9.2.0", "3.11", "mpi", "cpu"),
        ("9.2.0", "3.12", "gloo", "cpu"),
        ("9.10.0", "3.11", "gloo", "cpu"),
    ]  # fmt: skip


def test_the_entry_goes_when_the_release_is_measured(tmp_path: Path) -> None:
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, REASON)
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, "")
    assert not (tmp_path / FILE).exists()


def test_there_is_no_entry_for_what_has_a_record(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    saved(tmp_path / "results", record(*canaries(), channel="9.1.0"))
    keep(tmp_path, "9.1.0", "3.11", ARGUMENTS, REASON)
    assert load(tmp_path) == []
    keep(tmp_path, "9.1.0", "3.12", ARGUMENTS, REASON)
    assert len(load(tmp_path)) == 1


@pytest.mark.parametrize(
    ("more", "has_record"),
    [({}, True), ({"python": "3.12"}, False), ({"backend": "mpi"}, False), ({"device": "cuda"}, False)],
)
def test_a_record_is_of_the_same_place(more: dict[str, str], has_record: bool) -> None:
    name = record(channel="9.1.0").name
    assert without_record([entry(**more)], [name]) == ([] if has_record else [entry(**more)])
    assert without_record([entry("9.1")], [name]) == [entry("9.1")]


@pytest.mark.parametrize("content", [b"{", b'[{"release": "9.1.0"}]', b"\xff", b"{}"])
def test_a_broken_file_is_named_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RecordError, match=rf"^{FILE}: [^\n]+$"):
        load(tmp_path)
