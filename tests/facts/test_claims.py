"""Claims of torch's documentation, and where records agree with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up import outcome, record

from canishard import record as record_files
from canishard.errors import ConfigurationError
from canishard.facts import claims as claims_file
from canishard.facts.claims import Claim, Finding, Stated, Verdict, lines, unmatched, verdicts
from canishard.files import matrix_dir
from canishard.launch.outcome import Status

AVG, SUM = "collectives.all_reduce[op=avg]", "collectives.all_reduce[op=sum]"
NOT_YET = {
    "all-gather-into-tensor-not-on-gloo",
    "monitored-barrier-on-gloo",
    *("send", "recv", "broadcast", "all_gather", "gather", "scatter", "all_to_all", "barrier"),
}
"""Claims, and functions of the tables, that no check measured when they were written down."""


def claim(**more: Any) -> Claim:
    fields: dict[str, Any] = {
        "name": "avg-needs-nccl",
        "says": "AVG is for NCCL.",
        "page": "https://example.org/{minor}/distributed.html#op",
        "releases": ">=2.6,<2.10",
        "on": ["gloo/*"],
        "claims": Stated.UNSUPPORTED,
        "cases": ["collectives.*[op=avg]"],
    }
    return Claim(**{**fields, **more})


# ---- the file ------------------------------------------------------------------------------------


def test_all_faults_are_in_one_error(tmp_path: Path) -> None:
    good = 'says = "S"\npage = "https://x.org/a"\nreleases = ">=2.4"\non = ["gloo/cpu"]\n'
    path = tmp_path / "claims.toml"
    path.write_text(
        f'[[claim]]\nname = "one"\n{good}claims = "works"\nfunction = "send"\n'
        f'[[claim]]\nname = "Two"\n{good}claims = "refused"\n'
        '[[claim]]\nname = "three"\nsays = "S"\npage = "http://x.org"\nreleases = ">=2.4"\non = ["gloo"]\n'
        'claims = "works"\n'
        f'[[claim]]\nname = "four"\n{good.replace(">=2.4", "2.4 on")}claims = "works"\n'
        '[[table]]\nname = "t"\npage = "https://x.org/a"\nreleases = "new"\ncolumns = ["gloo/cpu", "mpi/cpu"]\n'
        'rows = {send = "✓ x", recv = "✓"}\n'
        '[[table]]\nname = "u"\npage = "https://x.org/a"\nreleases = "==2.4.*"\ncolumns = ["*/cpu"]\n'
        'rows = {"two words" = "✓"}\n',
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError) as raised:
        claims_file.load(path)
    assert str(raised.value).split("; claims.toml: ") == [
        (
            "claims.toml: claim[0].function: unknown key; allowed: cases, claims, name, on, page, releases, says, "
            "without"
        ),
        "claim[1].name: expected `str` matching regex '^[a-z0-9]+(-[a-z0-9]+)*$'",
        "claim[1].claims: invalid enum value 'refused'",
        "claim[2].page: expected `str` matching regex '^https://[^\\\\s<>\\\\\"]+$'",
        "claim[2].on[0]: expected `str` matching regex '^([a-z0-9_]+|\\\\*)/([a-z0-9_]+|\\\\*)$'",
        "table[1].columns[0]: expected `str` matching regex '^[a-z0-9_]+/[a-z0-9_]+$'",
        "table[1].rows: expected `str` matching regex '^[a-z0-9_]+$' - at `key` in `$`",
        'claim[3].releases: expected a specifier such as ">=2.4,<2.8", got "2.4 on"',
        'table[0].releases: expected a specifier such as ">=2.4,<2.8", got "new"',
        'table[0].rows.send: expected 2 of ✓ ✘ ?, got "✓ x"',
        'table[0].rows.recv: expected 2 of ✓ ✘ ?, got "✓"',
    ]


def test_a_name_is_given_once_cells_of_tables_included(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(
        '[[claim]]\nname = "t-send-gloo-cpu"\nsays = "S"\npage = "https://x.org/a"\nreleases = ">=2.4"\n'
        'on = ["gloo/cpu"]\nclaims = "works"\n'
        '[[table]]\nname = "t"\npage = "https://x.org/a"\nreleases = ">=2.4"\ncolumns = ["gloo/cpu"]\n'
        'rows = {send = "✓"}\n',
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError) as raised:
        claims_file.load(path)
    assert str(raised.value) == "claims.toml: table[0].name: t-send-gloo-cpu is one of claim[0] already"


def test_a_table_becomes_a_claim_a_cell_but_for_what_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(
        '[[table]]\nname = "t"\npage = "https://x.org/{minor}/a"\nreleases = ">=2.4"\nwithout = ["*[op=avg*"]\n'
        'columns = ["gloo/cpu", "mpi/cpu", "mpi/cuda"]\nrows = {all_reduce = "✓ ✘ ?"}\n',
        encoding="utf-8",
    )
    works, unsupported = claims_file.load(path)
    assert (works.name, works.function, works.on) == ("t-all-reduce-gloo-cpu", "all_reduce", ["gloo/cpu"])
    assert works.says == "all_reduce is available on gloo for tensors on cpu."
    assert unsupported.says == "all_reduce is not available on mpi for tensors on cpu."
    assert (works.claims, unsupported.claims) == (Stated.WORKS, Stated.UNSUPPORTED)
    covered = ["collectives.all_reduce", SUM, AVG, "collectives.all_reduce_coalesced", "ddp.all_reduce"]
    assert [case_id for case_id in covered if works.covers(case_id)] == covered[:2]


def test_the_committed_claims_fit_the_committed_records() -> None:
    found = claims_file.load()
    records = record_files.load_all(matrix_dir() / "results")
    case_ids = sorted({cell.id for one in records for cell in one.cells})
    names = {text.partition(":")[0] for text in unmatched(found, case_ids)}
    assert {one.function or one.name for one in found if one.name in names} <= NOT_YET
    assert all(one.page_of("2.10.0").startswith("https://docs.pytorch.org/docs/2.10/") for one in found)


# ---- one claim -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "backend", "device", "wanted"),
    [
        ("2.6.0", "gloo", "cpu", True),
        ("2.9.1", "gloo", "cuda", True),
        ("2.10.0", "gloo", "cpu", False),
        ("2.8.0", "mpi", "cpu", False),
        ("nightly", "gloo", "cpu", False),
    ],
)
def test_speaks_of(release: str, backend: str, device: str, *, wanted: bool) -> None:
    assert claim().speaks_of(release, backend, device) is wanted
    assert claim(releases="<2.10").speaks_of(release, backend, device) is wanted


def test_the_page_is_that_of_the_minor_release() -> None:
    assert claim().page_of("2.10.1") == "https://example.org/2.10/distributed.html#op"


@pytest.mark.parametrize("status", Status)
def test_every_status_says_something(status: Status) -> None:
    silent = {Status.NOT_RUN, Status.INFRA, Status.UNKNOWN}
    works = Finding.AGREES if status is Status.PASS else Finding.CONTRADICTED
    refused = {
        Status.PASS: Finding.CONTRADICTED,
        Status.FLAKY: Finding.CONTRADICTED,
        Status.WRONG: Finding.SILENT,
    }
    expected = (
        (works, refused.get(status, Finding.AGREES)) if status not in silent else (Finding.NOT_MEASURED,) * 2
    )
    assert tuple(claim(claims=stated).finding(status) for stated in Stated) == expected


def test_unmatched_names_what_no_case_measures() -> None:
    some = [claim(), claim(name="open", cases=[]), claim(name="other", cases=["pp.*", "tp.*"])]
    assert unmatched(some, [AVG]) == ["other: pp.*, tp.*"]
    assert unmatched([claim(without=[AVG])], [AVG]) == ["avg-needs-nccl: collectives.*[op=avg]"]


# ---- against records -----------------------------------------------------------------------------


def test_verdicts() -> None:
    records = [
        record(outcome(AVG), outcome(AVG, 4), channel="2.9.0"),
        record(outcome(AVG, status="unsupported"), channel="2.9.0", flavour="cpu"),
        record(outcome(AVG, status="wrong"), outcome(AVG, 4, "unsupported"), outcome(SUM), channel="2.8.0"),
        record(outcome(AVG, status="error"), channel="2.7.0"),
        record(outcome(SUM), outcome(AVG, status="not_run"), channel="2.6.0"),
        record(outcome(AVG), channel="2.10.0"),
        record(outcome(AVG), channel="nightly"),
        record(outcome(AVG), channel="2.9.0", backend="mpi"),
        record(outcome(AVG), channel="2.9.0", device="cuda"),
    ]
    found = verdicts([claim(), claim(name="nccl", on=["nccl/cuda"])], records)
    assert [(one.release, one.device, one.finding, len(one.cells)) for one in found] == [
        ("2.6.0", "cpu", Finding.NOT_MEASURED, 0),
        ("2.7.0", "cpu", Finding.AGREES, 1),
        ("2.8.0", "cpu", Finding.SILENT, 2),
        ("2.9.0", "cpu", Finding.CONTRADICTED, 3),
        ("2.9.0", "cuda", Finding.CONTRADICTED, 1),
    ]
    assert [(seen.outcome.world_size, seen.record.environment.flavour) for seen in found[3].cells] == [
        (2, "cpu"),
        (2, "cuda-nodriver"),
        (4, "cuda-nodriver"),
    ]
    older_first = verdicts([claim(releases=">=2.6")], records)
    assert [one.release for one in older_first if one.backend == "gloo" and one.device == "cpu"] == [
        *("2.6.0", "2.7.0", "2.8.0", "2.9.0", "2.10.0")
    ]
    assert verdicts([claim()], reversed(records)) == [one for one in found if one.claim.name == claim().name]


def test_lines_put_rows_that_say_the_same_together() -> None:
    one, two, three = (f"collectives.{name}[op=avg]" for name in ("a", "b", "c"))
    records = [
        record(*(outcome(row, status="unsupported") for row in (one, two)), channel="2.6.0"),
        record(outcome(SUM), channel="2.7.0"),
        record(
            outcome(one, status="wrong", deviation="sum instead of avg"),
            outcome(one, 4, "wrong", deviation="unchanged input"),
            outcome(two, status="wrong"),
            outcome(three, status="error"),
            channel="2.8.0",
        ),
        record(*(outcome(row) for row in (one, two, three)), channel="2.9.0"),
    ]
    found = [(line.finding, line.where, line.how, line.rows) for line in lines(verdicts([claim()], records))]
    assert found == [
        (Finding.CONTRADICTED, "2.9.0", ["pass"], [one, two, three]),
        (
            Finding.SILENT,
            "2.8.0",
            ["wrong", "wrong (sum instead of avg)", "wrong (unchanged input)"],
            [one, two],
        ),
        (Finding.AGREES, "2.6.0", ["unsupported"], [one, two]),
        (Finding.AGREES, "2.8.0", ["error"], [three]),
    ]
    assert lines([]) == []


def test_a_range_goes_over_releases_that_have_no_cell_of_the_claim() -> None:
    records = [
        record(outcome(AVG), channel="2.6.0"),
        record(outcome(SUM), outcome(AVG, status="not_run"), channel="2.7.0"),
        record(outcome(AVG), channel="2.8.0"),
    ]
    assert [line.where for line in lines(verdicts([claim()], records))] == ["2.6.0 to 2.8.0"]


# ---- what the committed records say of upstream ---------------------------------------------------


@pytest.fixture(scope="module")
def committed() -> list[Verdict]:
    return verdicts(claims_file.load(), record_files.load_all(matrix_dir() / "results"))


def said(committed: list[Verdict], name: str, row: str, finding: Finding) -> list[str]:
    """Return the releases on which one row says this of one claim, or of a function's column of gloo on cpu."""
    wanted = [
        one
        for one in committed
        if (one.backend, one.device) == ("gloo", "cpu") and name in {one.claim.name, one.claim.function}
    ]
    return [
        line.where
        for line in lines(wanted)
        if line.finding is finding and any(row in one for one in line.rows)
    ]


@pytest.mark.parametrize(
    ("name", "row", "finding", "where"),
    [
        ("avg-needs-nccl", ".all_reduce[op=avg]", Finding.CONTRADICTED, "2.8.0 to "),
        ("avg-needs-nccl", ".reduce_scatter_tensor[op=avg]", Finding.SILENT, "2.4.1 to 2.8.0"),
        ("avg-needs-nccl", ".reduce_scatter_tensor[op=avg]", Finding.CONTRADICTED, "2.9.1 to "),
        ("avg-needs-nccl", ".all_reduce[op=avg]", Finding.AGREES, "2.4.1 to 2.7.1"),
        ("reduce-scatter-tensor-not-on-gloo", "[op=sum]", Finding.CONTRADICTED, "2.4.1 to 2.7.1"),
        ("reduce-scatter-tensor-without-a-warning", "[op=max]", Finding.CONTRADICTED, "2.8.0"),
        ("reduce_scatter", "[op=max]", Finding.CONTRADICTED, "2.8.0"),
        ("reduce_scatter", "[op=max]", Finding.AGREES, "2.9.1 to "),
        ("fully-shard-reduces-gradients", "fsdp2.gradients", Finding.CONTRADICTED, "2.7.1 to 2.8.0"),
        ("gpipe-fills-and-drains", "pp.gpipe", Finding.CONTRADICTED, "2.9.1"),
    ],
)
def test_the_records_against_upstream(
    committed: list[Verdict], name: str, row: str, finding: Finding, where: str
) -> None:
    found = said(committed, name, row, finding)
    assert any(text.startswith(where) for text in found), found


def test_all_reduce_is_as_the_table_says_on_every_release(committed: list[Verdict]) -> None:
    measured = [one for one in committed if one.claim.function == "all_reduce" and one.cells]
    assert measured
    assert {one.finding for one in measured} == {Finding.AGREES}
