"""The half of a night that tells: what it believes, what it does, and that a failure loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from nightly.fake import Fake
from nightly.rehearsal import NIGHTS, ROOT, Recorded, as_nightly, begin, committed

from canishard import cli, record
from canishard.nightly import night, publish, state
from canishard.nightly.state import NightVerdict


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake(tmp_path / "github")
    for name, value in {**fake.variables, "CANISHARD_TORCH_INDEX": "pypi"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page.md"))
    return fake


@pytest.fixture
def measured(tmp_path: Path, fake: Fake) -> Path:
    """Return the folder of a night on which pp.gpipe broke."""
    assert fake.issues == []
    begin(tmp_path / "state")
    options = ["--state", str(tmp_path / "state"), "--out", str(tmp_path / "night"), "--control", "2.8.0"]
    night.main([*options, "--torch", NIGHTS[0].torch, "--date", NIGHTS[0].date], ROOT, Recorded())
    return tmp_path / "night"


def tell(tmp_path: Path, *options: str) -> int:
    return publish.main(["--state", str(tmp_path / "state"), "--from", str(tmp_path / "night"), *options])


def test_a_night_is_told_once(tmp_path: Path, measured: Path, fake: Fake) -> None:
    assert measured.exists()
    assert tell(tmp_path) == 0
    assert [issue["state"] for issue in fake.issues] == ["OPEN"]
    assert state.load(tmp_path / "state").open_causes[0].issue == 1
    assert (tmp_path / "page.md").read_text().startswith("# Nightly of 2026-01-01: changes were confirmed")
    [kept] = record.load_all(tmp_path / "state" / night.CONFIRMED)
    assert kept.variant.torch.startswith(NIGHTS[0].torch)


def test_a_dry_run_touches_nothing(
    tmp_path: Path, measured: Path, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (tmp_path / "state" / state.FILE).read_bytes()
    assert measured.exists()
    assert tell(tmp_path, "--dry-run") == 0
    assert fake.issues == []
    assert (tmp_path / "state" / state.FILE).read_bytes() == before
    assert "would be filed: pp.gpipe" in capsys.readouterr().out


def test_where_github_fails_the_state_stays_and_the_next_try_finds_its_issue(
    tmp_path: Path, measured: Path, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measured.exists()
    before = (tmp_path / "state" / state.FILE).read_bytes()
    fake.fail("issue create")
    assert tell(tmp_path) == 11
    assert "gh issue create: exit code 1: HTTP 502" in capsys.readouterr().err
    assert (tmp_path / "state" / state.FILE).read_bytes() == before
    fake.mend()
    assert tell(tmp_path) == 0
    assert len(fake.issues) == 1


def test_a_job_that_left_nothing_is_a_night_without_a_verdict(tmp_path: Path, fake: Fake) -> None:
    assert tell(tmp_path) == 0
    assert fake.issues == []
    last = state.load(tmp_path / "state").last
    assert last is not None
    assert (last.verdict, last.reason) == (
        NightVerdict.INFRA,
        "the job that measures left nothing: see its log",
    )


@pytest.mark.parametrize("lie", ["lane", "record", "channel", "none", "cut"])
def test_what_the_measuring_job_left_is_not_believed(
    lie: str, tmp_path: Path, measured: Path, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = measured / night.CONFIRMED
    [kept] = record.load_all(folder)
    files = [folder / f"{kept.name}.json", record.evidence_path(folder / f"{kept.name}.json")]
    if lie in {"record", "channel"}:
        other = committed("2.9.1") if lie == "channel" else as_nightly(committed("2.9.1"))
        if lie == "record":
            other.cells = [cell for cell in other.cells if not cell.id.startswith("canary")]
        for path in files:
            path.unlink()
        record.save(other, folder / f"{other.name}.json")
    elif lie == "none":
        for path in files:
            path.unlink()
    elif lie == "cut":
        (measured / night.NIGHT_FILE).write_bytes(b'{"date":')
    before = (tmp_path / "state" / state.FILE).read_bytes()

    assert tell(tmp_path, *(["--backend", "nccl"] if lie == "lane" else [])) == 12
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert fake.issues == []
    assert (tmp_path / "state" / state.FILE).read_bytes() == before


def test_the_report_takes_the_columns_of_a_state(tmp_path: Path) -> None:
    begin(tmp_path / "states" / "gloo-cpu")
    found = cli._nightly(tmp_path / "states")
    assert [(one.record.environment.channel, one.stale) for one in found] == [("nightly", "")]
    assert cli._nightly(tmp_path / "none") == []
