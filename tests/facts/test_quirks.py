"""Quirks, and where records show them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up import failed, outcome, quirk, record

from canishard.errors import ConfigurationError
from canishard.facts import quirks as quirks_file
from canishard.facts.quirks import Place
from canishard.launch.outcome import Outcome, Status

ID, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
NODRIVER, CPU = "cuda-nodriver", "cpu"


def wrong(world_size: int = 2, deviation: str = "summed instead of averaged") -> Outcome:
    return outcome(ID, world_size, "wrong", deviation=deviation)


# ---- the file ------------------------------------------------------------------------------------


def test_the_committed_quirks() -> None:
    found = quirks_file.load()
    assert {quirk.name for quirk in found} >= {
        "reduce-scatter-tensor-sums",
        "reduce-scatter-list-sums",
        "all-reduce-avg-refused",
        "fsdp2-gradients-summed",
        "adamw-hides-summed-gradients",
        "fsdp2-cpu-stream-record-event",
        "fsdp2-cpu-needs-cuda-driver",
        "gpipe-crashes-on-gloo",
    }


def test_all_faults_are_in_one_error(tmp_path: Path) -> None:
    good = 'title = "T"\nwhat = "W"\ncases = ["a.*"]\nshows = ["wrong"]\n'
    path = tmp_path / "quirks.toml"
    path.write_text(
        f'[[quirk]]\nname = "one"\n{good}'
        f'[[quirk]]\nname = "two words"\n{good}since = "2.8.0"\n'
        '[[quirk]]\nname = "three"\ntitle = "T"\nwhat = "W"\ncases = []\nshows = ["fail"]\n'
        f'[[quirk]]\nname = "one"\n{good}deviation = "("\n'
        '[[quirk]]\nname = "four"\ntitle = "T"\nwhat = "W"\ncases = ["a.*"]\nshows = ["pass", "hang"]\n'
        '[[quirk]]\nname = "five"\ntitle = "T"\nwhat = "W"\ncases = ["a.*"]\nshows = ["not_run"]\n'
        "[[quirks]]\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError) as raised:
        quirks_file.load(path)
    assert str(raised.value).split("; quirks.toml: ") == [
        "quirks.toml: quirks: unknown key; did you mean quirk? allowed: quirk",
        (
            "quirk[1].since: unknown key; allowed: cases, deviation, links, mends, message, name, shows, title, "
            "what, workaround"
        ),
        "quirk[1].name: expected `str` matching regex '^[a-z0-9]+(-[a-z0-9]+)*$'",
        "quirk[2].cases: expected `array` of length >= 1",
        "quirk[2].shows[0]: invalid enum value 'fail'",
        "quirk[3].name: one is quirk[0] already",
        "quirk[3].deviation: not a regular expression: missing ), unterminated subpattern at position 0",
        "quirk[4].shows: allowed: wrong, error, unsupported, missing, hang, crash, flaky",
        "quirk[5].shows: allowed: wrong, error, unsupported, missing, hang, crash, flaky",
    ]


def test_unmatched_patterns() -> None:
    one, two = quirk(name="one", workaround=MENDED), quirk(name="two", cases=["pp.*", "fsdp2.*"])
    assert quirks_file.unmatched([one, two], [ID]) == [f"one: {MENDED}", "two: pp.*"]


# ---- where ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        (wrong(), True),
        (
            outcome("fsdp2.train[optimizer=sgd]", status="wrong", deviation="summed instead of averaged"),
            False,
        ),
        (wrong(deviation="averaged twice"), False),
        (failed(ID, message="RuntimeError: summed"), False),
        (outcome(ID), False),
    ],
    ids=["shown", "another case", "another deviation", "another status", "pass"],
)
def test_is_shown_by(cell: Outcome, *, wanted: bool) -> None:
    assert quirk(deviation="summed").is_shown_by(cell) is wanted


def test_any_of_its_patterns_covers_a_case() -> None:
    found = quirk(cases=["pp.*", "fsdp2.*"])
    assert [found.covers(case_id) for case_id in (ID, "pp.gpipe", "tp.mlp")] == [True, True, False]


def test_a_message_narrows_it_down() -> None:
    narrow = quirk(shows=[Status.ERROR], message="no attribute 'record_event'$")
    assert narrow.is_shown_by(
        failed(ID, message="AttributeError: 'Stream' object has no attribute 'record_event'")
    )
    assert not narrow.is_shown_by(failed(ID, message="AttributeError: other"))


def test_places() -> None:
    records = [
        record(wrong(), outcome(ID, 4), outcome(MENDED, 2), outcome(MENDED, 4), channel="2.10.0"),
        record(outcome(ID), channel="2.9.0", flavour=CPU),
        record(wrong(), outcome(MENDED, 2), outcome(MENDED, 4, "hang"), channel="2.9.0"),
        record(wrong(), outcome(MENDED, 2, "not_run"), channel="2.8.0", flavour=CPU),
        record(wrong(), outcome(MENDED, 2, "missing"), channel="2.8.0"),
        record(outcome(ID, status="not_run"), channel="2.7.1"),
        record(outcome(ID), channel="2.6.0"),
        record(outcome(ID), channel="2.6.0", python="3.12"),
        record(wrong(), channel="2.8.0", backend="mpi"),
        record(outcome("canary.all_reduce"), channel="2.8.0", backend="xccl", device="xpu"),
    ]
    gloo, mpi = quirks_file.places(quirk(workaround=MENDED), records)
    assert gloo == Place(
        backend="gloo",
        device="cpu",
        measured=["2.6.0", "2.8.0", "2.9.0", "2.10.0"],
        shown={"2.8.0": [CPU, NODRIVER], "2.9.0": [NODRIVER], "2.10.0": [NODRIVER]},
        absent={"2.6.0": [NODRIVER], "2.9.0": [CPU]},
        workaround={
            "2.8.0": [Status.MISSING],
            "2.9.0": [Status.HANG, Status.PASS],
            "2.10.0": [Status.PASS],
        },
    )
    assert gloo.mended == ["2.10.0"]
    assert (mpi.backend, mpi.measured, mpi.mended) == ("mpi", ["2.8.0"], [])
    assert quirks_file.places(quirk(), reversed(records)) == quirks_file.places(quirk(), records)
