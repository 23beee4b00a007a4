"""The half of a night that measures: what it installs, in which order, and when it gives no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from made_up import canaries, record, saved
from nightly.nights import Story
from nightly.rehearsal import CONFIRMED, CONTROL, ROOT, Recorded, begin, committed, replaced

from canishard import record as record_files
from canishard import releases
from canishard.errors import ConfigurationError
from canishard.launch.outcome import Status
from canishard.nightly import night, state, verdict
from canishard.nightly.state import NightVerdict
from canishard.nightly.verdict import Night
from canishard.walk import nightlies

GPIPE = "pp.gpipe"


class Watched(Recorded):
    """Remembers what was called for."""

    def __init__(self, broken: str = "") -> None:
        super().__init__()
        self.broken = broken
        self.calls: list[tuple[str, list[str]]] = []

    def __call__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> int:
        version = command[command.index("-s") + 1].removeprefix("checks(").removesuffix(")")
        self.calls.append((version, [item for item in command if item.startswith(("--case", "--release"))]))
        return 1 if version == self.broken else super().__call__(command, environ, log)


@pytest.fixture(autouse=True)
def _index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANISHARD_TORCH_INDEX", "pypi")


def run(folder: Path, runner: Recorded, *options: str) -> tuple[int, Night]:
    out = folder / "out"
    arguments = ["--state", str(folder / "state"), "--out", str(out), "--control", CONTROL, *options]
    code = night.main(arguments, ROOT, runner)
    return code, verdict.decode((out / night.NIGHT_FILE).read_bytes())


def test_the_order_of_a_night(tmp_path: Path) -> None:
    begin(tmp_path / "state")
    watched = Watched()

    code, found = run(tmp_path, watched, "--torch", "2.9.1")

    assert (code, found.verdict) == (10, NightVerdict.CHANGED)
    assert [version for version, _ in watched.calls] == [
        CONTROL, "2.9.1", "2.9.1", CONTROL, "2.9.1", CONTROL, "2.9.1"
    ]  # fmt: skip
    assert watched.calls[:2] == [(CONTROL, ["--case=canary.*"]), ("2.9.1", ["--release=nightly"])]
    for version, options in watched.calls[2:]:
        assert f"--case={GPIPE}" in options
        assert ("--release=nightly" in options) == (version == "2.9.1")
        assert "--case=tp.mlp[style=colwise_rowwise]" not in options


def test_every_night_is_measured_whatever_the_last_one_left(tmp_path: Path) -> None:
    begin(tmp_path / "state")

    for build, found in (("2.9.1", NightVerdict.CHANGED), ("2.10.0", NightVerdict.CHANGED)) * 2:
        watched = Watched()
        _, judged = run(tmp_path, watched, "--torch", build)
        assert judged.build
        assert (judged.verdict, judged.build.torch.partition("+")[0]) == (found, build)
        assert [version for version, _ in watched.calls[:2]] == [CONTROL, build]


def test_a_control_that_fails_gives_no_verdict(tmp_path: Path) -> None:
    begin(tmp_path / "state")
    watched = Watched(broken=CONTROL)

    code, found = run(tmp_path, watched, "--torch", "2.9.1")

    assert (code, found.verdict) == (11, NightVerdict.INFRA)
    assert found.reason.startswith(f"checks({CONTROL}) left no record")
    assert [version for version, _ in watched.calls] == [CONTROL]
    assert not (tmp_path / "out" / night.CONFIRMED / "x").exists()


def test_a_control_that_is_not_what_its_record_says_confirms_nothing(tmp_path: Path) -> None:
    begin(tmp_path / "state")

    class Faulty(Recorded):
        def __call__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> int:
            code = super().__call__(command, environ, log)
            if f"checks({CONTROL})" in command:
                [found] = record_files.load_all(log.parent)
                found = replaced(found, (GPIPE, 2), status=Status.CRASH)
                record_files.save(found, log.parent / f"{found.name}.json")
            return code

    _, found = run(tmp_path, Faulty(), "--torch", "2.9.1")

    assert (GPIPE, 2) not in {(one.id, one.world_size) for one in found.standing}
    assert (GPIPE, 4) in {(one.id, one.world_size) for one in found.standing}
    assert "the control should be pass" in found.undecided[GPIPE, 2]


def test_the_newest_build_of_the_index_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = ["2.17.0.dev20261129", "2.16.0.dev20261130"]
    monkeypatch.setattr(nightlies, "listed", lambda _: listed)
    watched = Watched(broken="2.16.0.dev20261130")

    code, found = run(tmp_path, watched)

    assert (code, found.build and found.build.torch) == (11, "2.16.0.dev20261130")
    assert watched.calls[-1] == ("2.16.0.dev20261130", ["--release=nightly"])


@pytest.mark.parametrize(
    ("listed", "verdict_", "reason"),
    [
        ([], NightVerdict.INFRA, "the index has no nightly build of torch"),
        (["2.7.0.dev20250101"], NightVerdict.INFRA, "is older than the last judged"),
    ],
)
def test_an_index_without_news(
    listed: list[str], verdict_: NightVerdict, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "state")
    monkeypatch.setattr(nightlies, "listed", lambda _: listed)
    watched = Watched()

    code, found = run(tmp_path, watched)

    assert (code, found.verdict, watched.calls) == (11, verdict_, [])
    assert reason in found.reason


def test_the_same_build_is_not_judged_again(tmp_path: Path) -> None:
    begin(tmp_path / "state")

    code, found = run(tmp_path, Watched(), "--torch", CONFIRMED)

    assert (code, found.verdict) == (0, NightVerdict.SAME_BUILD)
    assert state.load(tmp_path / "state").confirmed is not None


def test_the_first_night_is_a_baseline(tmp_path: Path) -> None:
    code, found = run(tmp_path, Watched(), "--torch", "2.9.1")

    assert (code, found.verdict, found.suspects.changed) == (0, NightVerdict.BASELINE, [])
    [kept] = record_files.load_all(tmp_path / "out" / night.CONFIRMED)
    assert [cell.key for cell in kept.cells] == [cell.key for cell in committed("2.9.1").cells]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("pass", "crash", 10),
        ("pass", "wrong:summed", 10),
        ("crash", "pass", 0),
        ("crash", "error", 0),
        ("pass", "pass", 0),
    ],
)
def test_only_a_change_for_the_worse_has_an_exit_code(old: str, new: str, code: int) -> None:
    story = Story()
    story.night({GPIPE: old})
    story.night({GPIPE: new})
    assert night.exit_code(story.last) == code


@pytest.mark.parametrize("place", [{"backend": "mpi"}, {"device": "cuda"}], ids=["backend", "device"])
def test_each_backend_and_device_has_a_confirmed_record_of_its_own(
    tmp_path: Path, place: dict[str, str]
) -> None:
    other, own = record(*canaries(), channel="nightly", **place), record(*canaries(), channel="nightly")
    saved(tmp_path / night.CONFIRMED, other)
    assert night.confirmed_record(tmp_path, "gloo", "cpu") is None
    saved(tmp_path / night.CONFIRMED, own)
    assert night.confirmed_record(tmp_path, "gloo", "cpu") == own
    assert night.confirmed_record(tmp_path, **{"backend": "gloo", "device": "cpu", **place}) == other


def test_what_a_night_is_about_where_nothing_is_said(tmp_path: Path) -> None:
    rows = releases.load()

    def begun(*options: str) -> night.Measurement:
        return night.Measurement(night.parse(["--state", str(tmp_path), *options]), ROOT, Recorded())

    assert begun().control == rows[-1]
    assert begun("--control", CONTROL).control.version == CONTROL
    assert begun("--date", "2026-01-02").date == "2026-01-02"
    assert nightlies.is_date(begun().date)
    with pytest.raises(ConfigurationError, match=r"^--control 0\.1: unknown release"):
        begun("--control", "0.1")
