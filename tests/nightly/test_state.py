"""What is remembered, and its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up import outcome
from nightly.nights import GRADIENTS, PIPE, TRAIN, Story

from canishard.errors import RecordError
from canishard.launch.outcome import Status
from canishard.nightly import state
from canishard.nightly.state import Build, NightVerdict, PastNight, Standing, State, standing


def full() -> State:
    story = Story()
    story.night({})
    story.night({PIPE: "crash", TRAIN: "wrong:summed", GRADIENTS: "flaky"})
    story.fault()
    return story.state


def test_nothing_is_remembered_where_there_is_no_file(tmp_path: Path) -> None:
    assert state.load(tmp_path) == State()
    assert state.load(tmp_path / "none") == State()


def test_it_survives_its_file_and_is_written_at_once(tmp_path: Path) -> None:
    kept = full()
    assert kept.causes
    assert kept.unsettled
    state.save(kept, tmp_path / "state")
    assert state.load(tmp_path / "state") == kept
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["state.json"]
    assert (tmp_path / "state" / "state.json").read_bytes() == state.encode(kept)
    assert state.encode(kept).endswith(b"}\n")
    assert json.loads(state.encode(State())) == {"schema": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"schema": 2}', "schema: is 2, this canishard reads 1 only; a newer canishard wrote it"),
        (b'{"schema": 0}', "schema: is 0, this canishard reads 1 only; no canishard ever wrote it"),
        (b"{}", "top: object missing required field `schema`"),
        (b'{"schema": 1, "cause": []}', "top: object contains unknown field `cause`"),
        (b'{"schema": 1, "history": [{"date": "2026-01-01", "torch": "", "verdict": "fine"}]}', "history"),
        (b'{"schema"', "not JSON, or cut off"),
        (b'{"schema": 1, "channel": "\xff"}', "not JSON, or cut off"),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "state.json").write_bytes(content)
    with pytest.raises(RecordError) as raised:
        state.load(tmp_path)
    assert words in str(raised.value)
    assert "state.json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_no_empty_state(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    with pytest.raises(RecordError, match="cannot be read"):
        state.load(tmp_path)


CONFIRMED = Build(torch="2.16.0.dev20260110+cpu", git_version="abc", date="2026-01-10")


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (Build(torch="2.16.0.dev20260111+cpu", git_version="abd"), Standing.NEW),
        (Build(torch="2.16.0.dev20260110+cpu", git_version="abc", date="2026-01-12"), Standing.SAME),
        (Build(torch="2.16.0.dev20260110+cpu", git_version="abd"), Standing.NEW),
        (Build(torch="2.16.0.dev20260110"), Standing.SAME),
        (Build(torch="2.16.0.dev20260109", git_version="abb"), Standing.OLDER),
        (Build(torch="2.15.0"), Standing.OLDER),
        (Build(torch="2.16.0"), Standing.NEW),
    ],
)
def test_standing(build: Build, wanted: Standing) -> None:
    assert standing(State(confirmed=CONFIRMED), build) is wanted
    assert standing(State(), build) is Standing.NEW


def test_a_build_whose_night_gave_no_verdict_is_judged_again() -> None:
    build = Build(torch="2.16.0.dev20260111+cpu", git_version="abd")
    kept = State(
        confirmed=CONFIRMED,
        history=[
            PastNight(date="2026-01-11", torch=build.torch, git_version="abd", verdict=NightVerdict.INFRA)
        ],
    )
    assert standing(kept, build) is Standing.NEW


def test_stale_since_and_nights_without_a_verdict() -> None:
    story = Story()
    assert (story.state.last, story.state.stale_since, story.state.without_verdict()) == (None, "", (0, 0))
    story.night({})
    assert (story.state.stale_since, story.state.without_verdict()) == ("", (0, 0))
    story.fault()
    story.same()
    assert story.state.stale_since == "2026-01-01"
    assert story.state.without_verdict() == (2, 1)
    story.night({})
    assert (story.state.stale_since, story.state.without_verdict()) == ("", (0, 0))


def test_a_text_is_cut() -> None:
    found = state.seen(outcome(PIPE, status=Status.ERROR, message="x" * 1000, deviation="y" * 1000))
    assert (len(found.message), len(found.deviation)) == (300, 300)
