"""Six nights from the committed records, as ``nox -s nightly-rehearsal`` plays them: state, issues, exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from nightly.fake import Fake
from nightly.rehearsal import ADDED, FLAPPING, NIGHTS, REMOVED, Played, Recorded, begin, play

from canishard.launch.outcome import Status
from canishard.nightly import night
from canishard.nightly.state import NightVerdict

WANTED = [
    (NightVerdict.CHANGED, 10, ["#1 filed"]),
    (NightVerdict.CHANGED, 0, ["#1 closed"]),
    (NightVerdict.INFRA, 11, []),
    (NightVerdict.INFRA, 11, []),
    (NightVerdict.CLEAN, 0, []),
    (NightVerdict.CLEAN, 0, []),
]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake(tmp_path / "github")
    for name, value in fake.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CANISHARD_TORCH_INDEX", "pypi")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return fake


@pytest.fixture
def played(tmp_path: Path, fake: Fake, capsys: pytest.CaptureFixture[str]) -> list[Played]:
    assert capsys.readouterr().out == ""
    begin(tmp_path / "state")
    assert fake.issues == []
    return [play(plan, tmp_path, Recorded(plan.change)) for plan in NIGHTS]


def test_each_night_gives_the_right_state(played: list[Played], fake: Fake, tmp_path: Path) -> None:
    found = [(one.state.history[-1].verdict, one.code, [str(done) for done in one.done]) for one in played]
    assert found == WANTED

    [issue] = fake.issues
    assert (issue["state"], issue["reason"], len(issue["comments"])) == ("CLOSED", "completed", 1)
    assert issue["title"].startswith("pp.gpipe: pass -> crash")
    assert "pp.gpipe[scale_grads=True]" in issue["body"]
    assert "reduce_scatter" not in issue["body"]

    [cause] = played[0].state.open_causes
    assert {row.id for row in cause.rows} == {"pp.gpipe", "pp.gpipe[scale_grads=True]"}
    assert [one.state.open_causes for one in played[1:]] == [[]] * 5
    assert [one.state.stale_since for one in played] == ["", "", "2026-01-02", "2026-01-02", "", ""]

    confirmed = night.confirmed_record(tmp_path / "state", "gloo", "cpu")
    assert confirmed is not None
    cells = {cell.key: cell.status for cell in confirmed.cells}
    assert (ADDED in cells, REMOVED in cells, cells[FLAPPING]) == (True, False, Status.PASS)
    assert confirmed.variant.torch.startswith(NIGHTS[-1].torch)


def test_what_the_summaries_say(played: list[Played], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(played) == len(NIGHTS)
    said = capsys.readouterr().out
    assert "## Worse: 1 root cause\n\n**`pp.gpipe`**" in said
    assert "## Fixed: 2 root causes" in said
    fixed = said.partition("**`collectives.reduce_scatter_tensor`**")[2].partition("\n\n#")[0]
    assert "`fsdp2.gradients[reduce=default]` (2 and 4 ranks)" in fixed
    assert "`fsdp2.train[optimizer=adamw]` (2 and 4 ranks)" in fixed
    assert "## Flaky: the confirmed cell stays: 1" in said
    assert said.count("| indeterminate") == len(NIGHTS)
