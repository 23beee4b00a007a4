"""Expected differences, and the file that holds them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_up import outcome, record, variant

from canishard import files
from canishard import record as record_files
from canishard.errors import ConfigurationError
from canishard.facts import expectations as expectations_file
from canishard.facts.expectations import Entry, Reason, expected, unneeded
from canishard.launch.outcome import Status
from canishard.record import Record

ID = "pp.gpipe"


def entry(**more: object) -> Entry:
    fields = {
        "cases": ["pp.*"],
        "torch": ">=2.9",
        "statuses": ["crash"],
        "why": "so",
        "link": "https://example.org",
    }
    return msgspec.convert({**fields, **more}, Entry)


def built(torch: str, status: str = "crash", **place: object) -> Record:
    channel = "nightly" if "dev" in torch else torch.partition("+")[0]
    return record(outcome(ID, status=status), channel=channel, variant=variant(torch), **place)


def is_expected(found: Entry, measured: Record) -> bool:
    return expected([found], measured, measured.cells[0]) is found


# ---- the file ------------------------------------------------------------------------------------


def test_the_committed_file_holds_what_is_needed_only() -> None:
    entries = expectations_file.load()
    assert unneeded(entries, record_files.load_all(files.matrix_dir() / "results")) == []


def test_all_faults_are_in_one_error(tmp_path: Path) -> None:
    good = (
        'cases = ["a.*"]\ntorch = ">=2.9"\nstatuses = ["crash"]\nwhy = "so"\nlink = "https://example.org"\n'
    )
    path = tmp_path / "expectations.toml"
    path.write_text(
        f"[[expected]]\n{good}"
        f'[[expected]]\n{good}since = "2.8.0"\n'
        f"[[expected]]\n{good.replace('>=2.9', '2.9 or so')}until = 'soon'\n"
        f"[[expected]]\n{good.replace('crash', 'pass')}"
        f"[[expected]]\n{good.replace('https', 'ftp')}"
        '[[expected]]\ncases = []\ntorch = ""\nstatuses = ["fail"]\nwhy = ""\n'
        "[[expect]]\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError) as raised:
        expectations_file.load(path)
    assert str(raised.value).split("; expectations.toml: ") == [
        "expectations.toml: expect: unknown key; did you mean expected? allowed: expected",
        (
            "expected[1].since: unknown key; allowed: backend, cases, device, flavour, link, machine, statuses, "
            "system, torch, until, why"
        ),
        "expected[4].link: expected `str` matching regex '^https://\\\\S+$'",
        "expected[5].link: missing",
        "expected[5].cases: expected `array` of length >= 1",
        "expected[5].torch: expected `str` of length >= 1",
        "expected[5].statuses[0]: invalid enum value 'fail'",
        "expected[5].why: expected `str` of length >= 1",
        'expected[2].torch: expected specifiers such as ">=2.16.0.dev0,<2.17", got "2.9 or so"',
        'expected[2].until: expected a version such as "2.17.0", got "soon"',
        "expected[3].statuses: allowed: wrong, error, unsupported, missing, hang, crash, flaky, not_run",
    ]


# ---- what is expected ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "wanted"),
    [
        ("2.9.1+cu128", True),
        ("2.8.0+cu128", False),
        ("2.16.0.dev20261130+cpu", True),
    ],
)
def test_by_version(torch: str, *, wanted: bool) -> None:
    assert is_expected(entry(), built(torch)) is wanted


@pytest.mark.parametrize(
    ("specifier", "wanted"),
    [
        (">=2.16", False),
        (">=2.16.0.dev0", True),
        ("<2.16", False),
        ("==2.16.0.dev20261130", True),
        ("<2.17", True),
    ],
)
def test_a_nightly_counts_as_the_prerelease_that_it_is(specifier: str, *, wanted: bool) -> None:
    assert is_expected(entry(torch=specifier), built("2.16.0.dev20261130+cpu")) is wanted


@pytest.mark.parametrize("name", ["backend", "device", "flavour", "system", "machine"])
def test_by_place(name: str) -> None:
    here = {
        "backend": "gloo",
        "device": "cpu",
        "flavour": "cuda-nodriver",
        "system": "linux",
        "machine": "x86_64",
    }
    other = {"backend": "mpi", "device": "xpu", "flavour": "cpu", "system": "darwin", "machine": "arm64"}
    assert is_expected(entry(**{name: here[name]}), built("2.9.1"))
    assert not is_expected(entry(**{name: other[name]}), built("2.9.1"))


def test_by_status_row_and_time() -> None:
    assert not is_expected(entry(), built("2.9.1", "hang"))
    assert not is_expected(entry(cases=["fsdp2.*", "pp.gpipe[*"]), built("2.9.1"))
    assert is_expected(entry(cases=["fsdp2.*", "pp.*"]), built("2.9.1"))
    assert is_expected(entry(until="2.9.2"), built("2.9.1"))
    assert not is_expected(entry(until="2.9.1"), built("2.9.1+cu128"))
    assert is_expected(entry(until="2.16.0"), built("2.16.0.dev20261130"))
    assert not is_expected(entry(until="2.16.0.dev20261130"), built("2.16.0.dev20261130"))


def test_the_first_entry_counts() -> None:
    one, two = entry(why="one"), entry(why="two")
    measured = built("2.9.1")
    assert expected([one, two], measured, measured.cells[0]) is one
    assert expected([], measured, measured.cells[0]) is None


# ---- what can go ---------------------------------------------------------------------------------


def reasons(found: Entry, *records: Record) -> list[Reason]:
    return [one.reason for one in unneeded([found], records)]


def test_what_a_cell_shows_is_needed() -> None:
    assert reasons(entry(), built("2.9.1"), built("2.10.0", "pass")) == []


def test_what_no_cell_shows_any_more() -> None:
    assert reasons(entry(), built("2.9.1", "pass"), built("2.8.0")) == [Reason.NO_CELL]
    [gone] = unneeded([entry()], [built("2.9.1", "pass")])
    assert str(gone) == f"{entry()}: none of the cells that it is about has one of its statuses any more"


def test_another_row_that_shows_it_keeps_no_entry() -> None:
    other = outcome("tp.mlp", status="crash")
    found = record(built("2.9.1", "pass").cells[0], other, channel="2.9.1")
    assert reasons(entry(), found) == [Reason.NO_CELL]


def test_a_row_that_no_fitting_build_measured_may_be_needed() -> None:
    elsewhere = record(outcome("tp.mlp"), channel="2.9.1")
    assert reasons(entry(), elsewhere, built("2.8.0")) == []


@pytest.mark.parametrize("status", ["flaky", "not_run", "unknown"])
def test_what_was_not_decided_may_be_needed(status: str) -> None:
    assert reasons(entry(), built("2.9.1", status)) == []


def test_what_fits_no_row() -> None:
    found = unneeded([entry(cases=["pp.*", "old.*"])], [built("2.9.1")])
    assert [(one.reason, one.pattern) for one in found] == [(Reason.NO_ROW, "old.*")]
    assert reasons(entry(cases=["old.*"]), built("2.9.1")) == [Reason.NO_ROW]
    assert reasons(entry(cases=["old.*"], torch=">=3"), built("2.16.0.dev20261130")) == [Reason.NO_ROW]
    assert str(found[0]) == "pp.*, old.*: crash on torch >=2.9: no row has such an id: old.*"


def test_what_fits_no_build_is_known_only_where_the_nightly_is() -> None:
    found = entry(torch=">=2.16.0.dev0")
    assert reasons(found, built("2.9.1")) == []
    assert reasons(found, built("2.9.1"), built("2.16.0.dev20261130")) == []
    assert reasons(entry(torch=">=3"), built("2.9.1"), built("2.16.0.dev20261130")) == [Reason.NO_BUILD]


def test_what_is_over() -> None:
    assert reasons(entry(until="2.10.0"), built("2.9.1"), built("2.10.0")) == [Reason.OVER]
    assert reasons(entry(until="2.16.0"), built("2.9.1"), built("2.16.0.dev20261130")) == []


def test_without_a_record_nothing_can_be_said_of_cells() -> None:
    assert reasons(entry(until="2.10.0")) == [Reason.NO_ROW]
    assert unneeded([], []) == []


def test_a_status_that_needs_no_entry() -> None:
    assert {Status.PASS, Status.INFRA, Status.UNKNOWN} == expectations_file.NEVER_EXPECTED
