"""Runs that are compared with the first of them; a fake stands in for nox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from made_up import canaries, outcome, record

from canishard import record as record_files
from canishard import releases
from canishard.facts import steadiness
from canishard.launch.outcome import Status
from canishard.walk import repeat

CI = releases.ci_release(releases.load()).version


class Nox:
    """Leaves a record a run, with the statuses that it was given; then it raises, where it is given what."""

    def __init__(self, statuses: Sequence[Status], then: type[BaseException] = AssertionError) -> None:
        self.statuses = list(statuses)
        self.then = then
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], _environ: Mapping[str, str], _log: Path) -> int:
        self.commands.append(command)
        if len(self.commands) > len(self.statuses):
            raise self.then
        folder = Path(command[command.index("--record") + 1])
        found = record(*canaries(), outcome("family.subject", status=self.statuses[len(self.commands) - 1]))
        record_files.save(found, folder / f"{found.name}.json")
        return 0


@pytest.fixture(autouse=True)
def _index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANISHARD_TORCH_INDEX", "pypi")


def test_steady_runs_are_told_and_give_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nox = Nox([Status.PASS] * 3)

    assert repeat.main(["-n", "3", "-k", "fsdp2"], tmp_path, nox) == 0
    assert len(nox.commands) == 3
    assert [command[-2:] for command in nox.commands] == [["-k", "fsdp2"]] * 3
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f"cells on {CI}: 0 cells differ from the first run")


def test_a_cell_that_does_not_stay_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nox = Nox([Status.PASS, Status.PASS, Status.ERROR])

    assert repeat.main(["-n", "3"], tmp_path, nox) == 10
    assert "run 3 (auto): regressed: family.subject (2 ranks): pass -> error" in capsys.readouterr().out


def test_what_came_of_it_is_written(tmp_path: Path) -> None:
    nox = Nox([Status.PASS, Status.ERROR])
    out = tmp_path / "flakes" / "flakes.json"

    assert repeat.main(["-n", "2", "--out", str(out)], tmp_path, nox) == 10
    found = steadiness.load(out)
    assert found is not None
    assert (found.runs, found.cells, len(found.differing)) == (2, 3, 1)


def cut_after(number: int, folder: Path, *arguments: str) -> None:
    """Make some runs of a campaign that is then stopped."""
    with pytest.raises(KeyboardInterrupt):
        repeat.main(arguments, folder, Nox([Status.PASS] * number, KeyboardInterrupt))


def test_runs_that_were_asked_for_again_are_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repeat.main(["-n", "2"], tmp_path, Nox([Status.PASS] * 2))
    nox = Nox([Status.ERROR] * 3)

    assert repeat.main(["-n", "3"], tmp_path, nox) == 0
    assert len(nox.commands) == 3

    assert repeat.main(["-n", "2"], tmp_path, Nox([Status.PASS, Status.ERROR])) == 10
    assert "run 2 (auto): regressed: family.subject" in capsys.readouterr().out


def test_what_was_cut_goes_on(tmp_path: Path) -> None:
    cut_after(2, tmp_path, "-n", "3")
    nox = Nox([Status.PASS] * 2)

    assert repeat.main(["-n", "4"], tmp_path, nox) == 0
    assert len(nox.commands) == 2

    again = Nox([Status.PASS] * 4)
    repeat.main(["-n", "4"], tmp_path, again)
    assert len(again.commands) == 4


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--backend", "mpi"], {}),
        (["-k", "dcp"], {}),
        (["--start-methods", "spawn"], {}),
        ([], {"GLOO_SOCKET_IFNAME": "eth7"}),
        ([], {"CUDA_VISIBLE_DEVICES": "0"}),
        ([], {"CANISHARD_TORCH_INDEX": "https://example.org/cpu"}),
    ],
    ids=str,
)
def test_what_was_cut_does_not_go_on_with_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], variables: dict[str, str]
) -> None:
    cut_after(2, tmp_path, "-n", "3")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    nox = Nox([Status.PASS] * 3)

    assert repeat.main(["-n", "3", *options], tmp_path, nox) == 0
    assert len(nox.commands) == 3


def test_runs_of_an_earlier_campaign_are_not_those_of_one_that_was_cut(tmp_path: Path) -> None:
    repeat.main(["-n", "3"], tmp_path, Nox([Status.PASS] * 3))
    cut_after(1, tmp_path, "-n", "3")
    nox = Nox([Status.PASS] * 2)

    assert repeat.main(["-n", "3"], tmp_path, nox) == 0
    assert len(nox.commands) == 2


def test_both_start_methods_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nox = Nox([Status.PASS, Status.CRASH])

    assert repeat.main(["-n", "1", "--start-methods", "fork,spawn"], tmp_path, nox) == 10
    assert [command[command.index("--start-method") + 1] for command in nox.commands] == ["fork", "spawn"]
    assert "run 1 (spawn): regressed: family.subject" in capsys.readouterr().out


def test_a_run_without_a_record_is_infra(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert repeat.main(["-n", "2"], tmp_path, lambda *_: 1) == 11
    assert f"checks({CI}) left no record: it said nothing (all of it: " in capsys.readouterr().err


def test_a_run_without_a_record_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def nox(_command: Sequence[str], _environ: Mapping[str, str], log: Path) -> int:
        log.write_text("collected\n!!! _pytest.outcomes.Exit: canishard: no torch !!!\n\nnox > failed\n")
        return 1

    assert repeat.main(["-n", "1"], tmp_path, nox) == 11
    assert f"checks({CI}) left no record: no torch !!! (all of it: " in capsys.readouterr().err


def test_an_unknown_release_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert repeat.main(["--torch", "0.1"], tmp_path, Nox([])) == 2
    assert "0.1" in capsys.readouterr().err
