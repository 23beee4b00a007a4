"""The doctor: what it tells of a measurement beside the published column, and its exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_up import canaries, failed, outcome, record

from canishard import record as record_files
from canishard.answers import dataset, doctor, published
from canishard.errors import ConfigurationError
from canishard.launch.outcome import Outcome, Status
from canishard.record import CANARY, Record
from canishard.record.environment import Variant

ROW, OTHER = "fsdp2.train[optimizer=sgd]", "pp.gpipe"
PUBLISHED = [
    record(*canaries(), outcome(ROW), outcome(ROW, 4), outcome(OTHER, status="not_run")),
    record(*canaries(), outcome(ROW, status="wrong", deviation="summed"), flavour="cpu"),
    record(*canaries(), channel="2.9.1"),
]


def measured(*cells: Outcome, torch: str = "2.8.0+cu128", **more: str) -> Record:
    built = record(*cells, channel="local", **more)
    built.variant = Variant(
        **{name: getattr(built.variant, name) for name in Variant.__struct_fields__ if name != "torch"},
        torch=torch,
    )
    return built


class Doctor:
    """A doctor whose run gives a made-up record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.patch = monkeypatch
        self.arguments: list[str] = []
        monkeypatch.setattr(published, "load", lambda: dataset.build(PUBLISHED, ["2.8.0", "2.9.1"], [], {}))

    def __call__(self, found: Record | None, code: int = 0, arguments: Sequence[str] = ()) -> tuple[int, str]:
        def run(all_arguments: list[str]) -> int:
            self.arguments = all_arguments
            (path,) = [text.partition("=")[2] for text in all_arguments if text.startswith("--record=")]
            if found:
                record_files.save(found, Path(path))
            return code

        self.patch.setattr(pytest, "main", run)
        return doctor.main(backend="gloo", device="cpu", arguments=arguments), self.capsys.readouterr().out


@pytest.fixture(name="examine")
def doctor_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(monkeypatch, capsys)


def test_a_torch_that_does_what_is_published_is_well(examine: Doctor) -> None:
    code, said = examine(measured(*canaries(), outcome(ROW)))

    assert code == 0
    assert "torch 2.8.0+cu128 (gloo on cpu, cuda-nodriver build, linux x86_64, Python 3.11)" in said
    assert "the published column: 2.8.0 (gloo on cpu, cuda-nodriver build" in said
    assert said.endswith("canishard doctor: 3 of 3 cells the same, 3 pass\n")
    assert "build, cpu" not in said


def test_what_differs_is_told_and_has_its_exit_code(examine: Doctor) -> None:
    code, said = examine(
        measured(*canaries(), outcome(ROW, status="wrong", deviation="summed", message="got 2, wanted 1"))
    )

    assert code == 10
    assert f"  newly_wrong: {ROW} (2 ranks): pass -> wrong (summed)\n    got 2, wanted 1\n" in said
    assert "2 of 3 cells the same, 2 pass, 1 wrong" in said


def test_what_could_not_be_run_or_is_in_one_of_both_alone_is_told_and_is_no_difference(
    examine: Doctor,
) -> None:
    code, said = examine(
        measured(
            *canaries(),
            outcome(ROW, status="not_run", message="not installed: safetensors"),
            outcome(ROW, 4, status="not_run", message="not installed: safetensors"),
            outcome(OTHER, status="error", message="RuntimeError: no"),
            outcome("acme.mine", status="wrong"),
        )
    )

    assert code == 0
    assert "  2 cells not run: not installed: safetensors\n" in said
    assert f"  2 cells not in it: acme.mine, {OTHER}\n" in said
    assert "2 of 2 cells the same, 2 pass\n" in said


def test_the_column_is_that_of_the_same_build_and_another_is_said_to_be(examine: Doctor) -> None:
    wrong = outcome(ROW, status="wrong", deviation="summed")

    own, _ = examine(measured(wrong, torch="2.8.0+cpu", flavour="cpu"))
    other, said = examine(measured(*canaries(), torch="2.9.1+cpu", flavour="cpu"))

    assert (own, other) == (0, 0)
    assert "it is of another build, cuda-nodriver where this one is cpu: they differ in places" in said


def test_a_missing_driver_where_it_was_published_is_no_difference_of_a_machine_that_has_one(
    monkeypatch: pytest.MonkeyPatch, examine: Doctor
) -> None:
    message = "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"
    column = record(*canaries(), failed(ROW, message=message))
    monkeypatch.setattr(published, "load", lambda: dataset.build([column], ["2.8.0"], [], {}))

    with_driver, said = examine(measured(*canaries(), outcome(ROW), flavour="cuda"))
    without, _ = examine(measured(*canaries(), outcome(ROW)))

    assert with_driver == 0
    assert f"  1 cell not in it: {ROW}\n" in said
    assert without == 10


@pytest.mark.parametrize(
    ("torch", "place", "words"),
    [
        ("2.7.0", {}, "there is one of 2.8.0, 2.9.1"),
        ("2.8.0.dev20250601+cpu", {}, "there is one of 2.8.0, 2.9.1"),
        ("2.8.0", {"device": "cuda", "backend": "nccl"}, "with nccl on cuda; nor of any other"),
    ],
)
def test_without_a_column_there_is_no_verdict(
    examine: Doctor, torch: str, place: dict[str, str], words: str
) -> None:
    code, said = examine(measured(*canaries(), outcome(ROW, status="wrong"), torch=torch, **place))

    assert code == 5
    assert words in said
    assert "nothing to compare with, 2 pass, 1 wrong" in said


def test_where_nothing_could_be_compared_nothing_is_called_the_same(examine: Doctor) -> None:
    code, said = examine(measured(outcome("acme.mine"), outcome(ROW, status="not_run")))

    assert code == 5
    assert "1 cell not in it: acme.mine\n" in said
    assert said.endswith("canishard doctor: nothing to compare, no cell is on both sides\n")


def test_a_run_that_left_no_record_keeps_its_exit_code(examine: Doctor) -> None:
    assert examine(None, code=11) == (11, "")
    assert examine(None, code=4) == (4, "")
    assert examine(None, code=0) == (0, "")


def test_a_run_that_could_not_measure_all_is_compared_and_keeps_its_exit_code(examine: Doctor) -> None:
    code, said = examine(measured(*canaries(), outcome(ROW, status="wrong")), code=11)

    assert code == 11
    assert "newly_wrong" in said


def test_what_it_does_not_know_is_handed_to_pytest_and_its_own_options_are_not_to_be_had(
    examine: Doctor,
) -> None:
    examine(measured(*canaries()), arguments=["-k", "fsdp2", "--checks", "mine"])
    assert examine.arguments[:3] == ["--pyargs", "canishard.checks", "-W"]
    assert examine.arguments[4:6] == ["--backend=gloo", "--device=cpu"]
    assert examine.arguments[-4:] == ["-k", "fsdp2", "--checks", "mine"]

    for taken in (["--record", "x"], ["--record=x"], ["--release", "2.8.0"]):
        with pytest.raises(ConfigurationError, match=r"not with doctor, whose record is thrown away"):
            doctor.main(arguments=taken)


def test_flaky_is_told_as_a_difference(examine: Doctor) -> None:
    code, said = examine(measured(*canaries(), outcome(ROW, status=Status.FLAKY, message="1 pass, 1 wrong")))

    assert code == 10
    assert f"indeterminate: {ROW} (2 ranks): pass -> flaky" in said


@pytest.mark.torch
def test_it_measures_what_is_installed_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "canishard", "doctor", "--case", CANARY, "--world-size", "2"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode in {0, 5}, done.stdout + done.stderr  # 5: of a torch that was never published.
    assert done.stdout.endswith(", 1 pass\n")
    assert "warning" not in done.stdout
    assert {path.name for path in tmp_path.iterdir()} <= {".pytest_cache"}
