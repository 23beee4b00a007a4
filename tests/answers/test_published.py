"""What the shipped data set answers: yes, partial, no, or unknown, and why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers.test_dataset import CATALOGUE, MENDED, ROW
from made_up import failed, outcome, quirk, record

import canishard
from canishard.answers import dataset, needs, published
from canishard.answers.dataset import Dataset
from canishard.answers.published import Answer, Verdict
from canishard.catalogue import renamed
from canishard.errors import ConfigurationError, RecordError
from canishard.facts.support import Span

OTHER = "fsdp2.sharding"
KNOWN = ["2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.8.1", "2.9.1", "2.10.0"]


def wrong(world_size: int = 2) -> Any:
    return outcome(ROW, world_size, "wrong", deviation="summed", message="got 2, wanted 1")


def made_up() -> Dataset:
    records = [
        record(
            failed(ROW, message="RuntimeError: refused"),
            outcome(OTHER, names=["torch._old"]),
            channel="2.6.0",
        ),
        record(
            wrong(), wrong(4), outcome(MENDED, 2, "missing"), outcome(MENDED, 4, "missing"), channel="2.7.1"
        ),
        record(wrong(), outcome(ROW, 4), outcome(MENDED), outcome(MENDED, 4), channel="2.8.0"),
        record(outcome(ROW), outcome(ROW, 4), channel="2.8.0", flavour="cpu"),
        record(outcome(ROW), outcome(ROW, 4), channel="2.9.1"),
        record(outcome(ROW, status="not_run", message="too few devices"), channel="2.10.0"),
        record(outcome(ROW), channel="nightly"),
    ]
    mended = quirk(workaround=MENDED, mends="Force\n  a sum.")
    return dataset.build(records, KNOWN, [mended], CATALOGUE)


def ask(row: str = ROW, **more: Any) -> Answer:
    return published.answer(made_up(), row, **more)


# ---- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "verdict", "reason"),
    [
        ("2.9.1", "yes", "passes on 2.9.1 with 2 and 4 ranks"),
        ("2.7.1", "no", "wrong (summed) on 2.7.1 with 2 and 4 ranks"),
        ("2.6.0", "no", "error on 2.6.0 with 2 ranks: RuntimeError: refused"),
        ("2.8.0+cpu", "yes", "passes on 2.8.0 with 2 and 4 ranks"),
        ("2.8.0+cu128", "partial", "on 2.8.0: pass: 4 ranks; wrong (summed): 2 ranks"),
        (
            "2.9.1+cpu",
            "yes",
            "passes on 2.9.1 with 2 and 4 ranks; measured on another build: cuda-nodriver",
        ),
        (
            "2.9.1+rocm6.4",
            "yes",
            "passes on 2.9.1 with 2 and 4 ranks; measured on another build: cuda-nodriver",
        ),
        ("2.9.1+git1a2b", "yes", "passes on 2.9.1 with 2 and 4 ranks"),
        ("2.7", "no", "wrong (summed) on 2.7.1 with 2 and 4 ranks"),
        ("2", "yes", "passes on 2.9.1 with 2 and 4 ranks"),
        ("2.7.0", "unknown", "2.7.0 was not measured; 2.6.0: no, 2.7.1: no"),
        ("2.8.1", "unknown", "2.8.1 was not measured; 2.8.0: partial, 2.9.1: yes"),
        ("2.5.1", "unknown", "2.5.1 was not measured; 2.6.0: no"),
        ("2.11", "unknown", "no patch of 2.11 was measured; 2.9.1: yes"),
        ("2.10.0", "unknown", "could not be run on 2.10.0: too few devices; 2.9.1: yes"),
        (
            "2.11.0.dev20260101+cpu",
            "unknown",
            "2.11.0.dev20260101+cpu is a pre-release, and only stable releases are answered for; 2.9.1: yes",
        ),
        (
            "2.8.0a0+5228986c39.nv25.5",
            "unknown",
            (
                "2.8.0a0+5228986c39.nv25.5 is a pre-release, and only stable releases are answered for; "
                "2.7.1: no, 2.8.0: partial"
            ),
        ),
    ],
)
def test_the_verdict_and_its_reason(torch: str, verdict: str, reason: str) -> None:
    answer = ask(torch=torch)
    assert (answer.verdict.value, answer.reason) == (verdict, reason)
    assert bool(answer.release) is (verdict != "unknown")


def test_builds_that_differ_are_partial_where_the_version_names_none() -> None:
    answer = ask(torch="2.8.0")
    assert answer.verdict is Verdict.PARTIAL
    assert "wrong (summed): 2 ranks on the cuda-nodriver build" in answer.reason


@pytest.mark.parametrize("torch", ["2.8.0", "2.8.0+cu128"])
def test_two_pythons_are_one_answer_where_they_agree(torch: str) -> None:
    def ask_of(status: str) -> Answer:
        records = [
            record(wrong()),
            record(
                outcome(ROW, status=status, deviation="summed" if status == "wrong" else ""), python="3.12"
            ),
        ]
        return published.answer(dataset.build(records, KNOWN, [], CATALOGUE), ROW, torch=torch)

    assert ask_of("wrong").reason == "wrong (summed) on 2.8.0 with 2 ranks"
    differing = ask_of("pass")
    assert differing.verdict is Verdict.PARTIAL
    assert "pass: 2 ranks on Python 3.12; wrong (summed): 2 ranks on Python 3.11" in differing.reason


def test_one_number_of_ranks() -> None:
    assert ask(torch="2.8.0+cu128", world_size=4).verdict is Verdict.YES
    assert ask(torch="2.8.0+cu128", world_size=2).reason == "wrong (summed) on 2.8.0 with 2 ranks"
    unknown = ask(torch="2.9.1", world_size=8)
    assert (unknown.verdict, unknown.reason) == (
        Verdict.UNKNOWN,
        "was not measured with 8 ranks, only with 2 and 4 ranks",
    )


def test_another_backend_is_unknown() -> None:
    answer = ask(torch="2.9.1", backend="nccl", device="cuda")
    assert answer.reason == "was not measured with nccl on cuda, only with gloo on cpu"
    never = dataset.build([], KNOWN, [], CATALOGUE)
    assert published.answer(never, ROW, torch="2.9.1").reason == (
        "was not measured with gloo on cpu, nor with anything else"
    )


def test_a_pass_under_an_old_name_says_the_name() -> None:
    assert ask(OTHER, torch="2.6.0").reason == "passes on 2.6.0 with 2 ranks (as torch._old)"


# ---- what mends it -------------------------------------------------------------------------------


def test_a_workaround_is_named_where_it_was_measured_to_pass() -> None:
    answer = ask(torch="2.8.0+cu128")
    assert (answer.workaround, answer.mends, answer.quirks) == (MENDED, "Force a sum.", ["sums"])
    assert str(answer).endswith(f"wrong (summed): 2 ranks; {MENDED} passes there")


def test_a_workaround_that_is_not_there_is_not_named() -> None:
    answer = ask(torch="2.7.1")
    assert (answer.workaround, answer.mends, answer.quirks) == ("", "Force a sum.", ["sums"])


def test_what_works_needs_none() -> None:
    answer = ask(torch="2.9.1")
    assert (answer.workaround, answer.mends, answer.quirks) == ("", "", [])
    assert str(answer) == f"{ROW} with gloo on cpu: yes: passes on 2.9.1 with 2 and 4 ranks"


def test_the_workaround_of_a_quirk_counts_only_where_the_quirk_shows() -> None:
    records = [record(failed("a.x"), outcome("b.mends"))]
    found = dataset.build(records, KNOWN, [quirk(cases=["a.x"], workaround="b.mends")], {})
    assert published.answer(found, "a.x", torch="2.8.0").workaround == ""
    shown = [record(outcome("a.x", status="wrong"), outcome("b.mends"))]
    found = dataset.build(shown, KNOWN, [quirk(cases=["a.x"], workaround="b.mends")], {})
    assert published.answer(found, "a.x", torch="2.8.0").workaround == "b.mends"


# ---- what it is not ------------------------------------------------------------------------------


@pytest.mark.parametrize("torch", ["2.9.1", "2.7.1", "2.7.0"])
def test_an_answer_is_no_boolean(torch: str) -> None:
    with pytest.raises(TypeError, match=r"look at \.verdict"):
        bool(ask(torch=torch))


def test_an_old_id_answers_with_a_note_of_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "load", lambda: {"old.name": ROW})

    found = ask("old.name", torch="2.9.1")

    assert (found.row, found.verdict) == (ROW, Verdict.YES)
    assert found.reason == f"old.name is called {ROW} now; passes on 2.9.1 with 2 and 4 ranks"
    assert needs.resolve(["old.name"], made_up()) == [ROW]


def test_a_row_that_is_not_there_is_told_with_near_ones() -> None:
    with pytest.raises(ConfigurationError) as raised:
        ask("fsdp2.gradient", torch="2.8")
    assert str(raised.value) == (
        "fsdp2.gradient: no such row; did you mean fsdp2.gradients[reduce=default] or fsdp2.gradients+force_sum? "
        "`canishard table` lists them"
    )


@pytest.mark.parametrize("torch", ["", "two", "2.8.x", ">=2.8"])
def test_a_version_that_is_none_is_told_with_what_is_allowed(torch: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no version; allowed: 2\.8, 2\.8\.0"):
        ask(torch=torch)


def test_history_is_of_what_was_asked() -> None:
    def verdicts(spans: list[Span]) -> list[tuple[str, str, str]]:
        return [(span.first, span.last, span.verdict.value) for span in spans]

    assert verdicts(published.history(made_up(), ask(torch="2.8", world_size=4))) == [
        ("2.7.1", "2.7.1", "no"),
        ("2.8.0", "2.9.1", "yes"),
    ]


def test_measured_releases() -> None:
    assert published.measured_releases(made_up(), "gloo", "cpu") == [
        "2.6.0",
        "2.7.1",
        "2.8.0",
        "2.9.1",
        "2.10.0",
    ]
    assert published.measured_releases(made_up(), "nccl", "cuda") == []


# ---- the file ------------------------------------------------------------------------------------


def installed(package: Path) -> Path:
    return package / "_reports" / "canishard.json"


def in_a_checkout(package: Path) -> Path:
    return package.parents[1] / "reports" / "canishard.json"


@pytest.mark.parametrize("place", [installed, in_a_checkout])
def test_the_package_finds_its_data(tmp_path: Path, place: Callable[[Path], Path]) -> None:
    package = tmp_path / "src" / "canishard"
    path = place(package)
    path.parent.mkdir(parents=True)
    path.write_bytes(dataset.encode(made_up()))
    assert published.path_of(package) == path
    assert published.load(path) == made_up()
    assert published.load(path) is published.load(path)


def test_no_data_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="data set is missing"):
        published.path_of(tmp_path / "src" / "canishard")
    with pytest.raises(RecordError, match=r"none\.json: cannot be read: No such file"):
        published.load(tmp_path / "none.json")


def test_supports_answers_by_what_the_package_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "canishard.json"
    path.write_bytes(dataset.encode(made_up()))
    monkeypatch.setattr(published, "path_of", lambda: path)
    assert canishard.supports(ROW, torch="2.9").verdict is canishard.Verdict.YES
    assert isinstance(canishard.load(), canishard.Dataset)


def test_the_package_loads_nothing_until_it_is_asked() -> None:
    code = (
        "import sys, canishard; assert not {'msgspec', 'torch', 'packaging'} & set(sys.modules); "
        "from canishard import supports, Answer; assert 'torch' not in sys.modules; assert 'load' in dir(canishard)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_name_that_the_package_does_not_have() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'support_matrix'"):
        _ = canishard.support_matrix  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("message", "torch", "verdict"),
    [
        ("RuntimeError: CUDA driver version is insufficient", "2.6.0+cpu", "unknown"),
        ("RuntimeError: Invalid scalar type on CUDA", "2.6.0+cu124", "no"),
        ("RuntimeError: refused", "2.6.0+cpu", "no"),
    ],
)
def test_a_failure_of_one_build_says_nothing_of_another(message: str, torch: str, verdict: str) -> None:
    found = dataset.build([record(failed(ROW, message=message), channel="2.6.0")], KNOWN, [], CATALOGUE)
    answer = published.answer(found, ROW, torch=torch)
    assert answer.verdict.value == verdict
    if verdict == "unknown":
        assert answer.reason.startswith("this build of 2.6.0 was not measured; error on 2.6.0 with 2 ranks")
        assert answer.reason.endswith("measured on another build: cuda-nodriver")
        assert answer.release == ""


DRIVER = [
    "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    "RuntimeError: FSDP requires CUDA for streams",
]


@pytest.mark.parametrize("torch", ["2.6.0", "2.6", "2.6.0+cu124"])
@pytest.mark.parametrize("message", DRIVER)
def test_a_missing_driver_where_it_was_measured_is_nobody_elses_answer(message: str, torch: str) -> None:
    found = dataset.build(
        [record(failed(ROW, message=message), failed(ROW, 4, message), channel="2.6.0")], KNOWN, [], CATALOGUE
    )
    answer = published.answer(found, ROW, torch=torch)
    assert (answer.verdict, answer.release) == (Verdict.UNKNOWN, "")
    assert answer.reason == (
        f"2.6.0 was measured without a CUDA driver only; error on 2.6.0 with 2 and 4 ranks: {message}"
    )
    near = published.answer(found, ROW, torch="2.7.0")
    assert near.reason == "2.7.0 was not measured; 2.6.0: unknown"


def test_what_fails_with_a_driver_too_is_told() -> None:
    cells = [failed(ROW, message=DRIVER[0]), outcome(ROW, 4, "wrong", deviation="summed")]
    found = dataset.build([record(*cells, channel="2.6.0")], KNOWN, [], CATALOGUE)
    assert published.answer(found, ROW, torch="2.6.0+cu124").verdict is Verdict.NO
    assert published.answer(found, ROW, torch="2.6.0+cu124", world_size=2).verdict is Verdict.UNKNOWN


def test_machines_with_and_without_a_driver_are_told_apart() -> None:
    records = [
        record(failed(ROW, message=DRIVER[0]), channel="2.6.0"),
        record(outcome(ROW), channel="2.6.0", flavour="cuda"),
    ]
    answer = published.answer(dataset.build(records, KNOWN, [], CATALOGUE), ROW, torch="2.6.0+cu124")
    assert answer.verdict is Verdict.PARTIAL
    assert "error: 2 ranks on the cuda-nodriver build" in answer.reason
