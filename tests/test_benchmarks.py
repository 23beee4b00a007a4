"""The page of benchmarks from made-up measurements."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks import __main__ as bench
from benchmarks import pages, release, report
from benchmarks.harnesses import ENTRIES

SECONDS = {"fork": 0.125, "continuous": 0.0625, "spawn": 4.0, "mp_spawn": 5.0, "mp_test_case": 6.0}


def block(number: int, harness: str, body: str, factor: float = 1.0, cases: int = 4) -> report.Block:
    took = SECONDS[harness] * factor
    return report.Block(
        round=number,
        harness=harness,
        body=body,
        total_s=5.0 + cases * took,
        cases_s=[took] * cases,
        bodies_s=[took / 2] * cases,
        spent_s=[{"start": 0.75, "body": 0.25}] * cases if harness == "fork" else [{}] * cases,
    )


def run(factor: float = 1.0) -> report.Run:
    blocks = [
        block(number, harness, body, factor if number == 2 else 1.0)
        for number in (1, 2, 3)
        for body in ("all_reduce", "fsdp2_step")
        for harness in ENTRIES
    ]
    return report.Run(torch="0.0.1", python="3.0.0", cores=3, blocks=blocks)


def test_a_total_is_of_as_many_cases_as_it_says_however_few_were_run() -> None:
    assert block(1, "fork", "all_reduce", cases=4).total_of_cases_s == pytest.approx(5.0 + 12.5)
    assert block(1, "fork", "all_reduce", cases=100).total_of_cases_s == pytest.approx(5.0 + 12.5)


def test_overhead_is_what_is_not_the_slowest_ranks_body() -> None:
    assert block(1, "fork", "all_reduce").overhead_s == 0.0625


@pytest.mark.parametrize(
    ("values", "text"),
    [([3.0, 1.0, 2.0], "2.0 (1.0 to 3.0)"), ([48.4], "48 (48 to 48)"), ([0.111], "0.11 (0.11 to 0.11)")],
)
def test_a_figure_has_two_digits_that_count(values: list[float], text: str) -> None:
    assert str(report.Figure.of(values)) == text


def test_ratios_are_taken_within_a_round() -> None:
    measured = report.Measured(run(factor=10.0))

    assert (
        str(measured.ratio(lambda block: block.case_s, "mp_test_case", "fork", "all_reduce"))
        == "48 (48 to 48)"
    )


def test_the_goals_say_where_they_are_missed() -> None:
    lines = report.goals(report.Measured(run())).splitlines()

    assert [line.split("|")[-2].strip() for line in lines[2:]] == ["yes", "yes", "no"]
    assert [line.split("|")[2].strip() for line in lines[2:]] == [
        "48 (48 to 48)", "0.06 (0.06 to 0.06)", "1.6 (1.6 to 1.6)"
    ]  # fmt: skip


def test_the_bounds_leave_the_bodies_alone() -> None:
    lines = report.bounds(report.Measured(run())).splitlines()

    assert [line.split("|")[2].strip() for line in lines[2:]] == ["96 (96 to 96)", "0.56 (0.56 to 0.56)"]


def test_the_page() -> None:
    page = report.render(run())

    assert "torch 0.0.1, Python 3.0.0, 3 cores, 2 ranks, gloo." in page
    assert "| canishard, forked" in page
    assert "| start " in page
    assert "75 % |" in page
    assert page == report.render(run())


def test_harnesses_take_turns_and_the_first_round_only_warms(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str, int]] = []

    def measure(number: int, harness: str, body: str, count: int) -> report.Block:
        asked.append((number, harness, count))
        return block(number, harness, body)

    monkeypatch.setattr(bench, "measure", measure)
    said = bench.options(["--rounds", "2", "--cases", "7", "--slow-cases", "3", "--body", "all_reduce"])

    assert {found.round for found in bench.blocks(said)} == {1, 2}
    counts = [3 if entry.is_slow else 7 for entry in ENTRIES.values()]
    assert [count for _, _, count in asked] == [1] * len(ENTRIES) + counts * 2
    assert [harness for _, harness, _ in asked] == list(ENTRIES) * 3


def test_every_harness_has_a_module() -> None:
    folder = bench.ROOT / "benchmarks" / "harnesses"

    assert all((folder / f"{entry.module}.py").is_file() for entry in ENTRIES.values())


def test_the_site_is_told_where_it_was_measured() -> None:
    assert report.site(run()) == ""
    measured = msgspec.structs.replace(run(), site_s={"5": [1.0, 2.0], "20": [4.0, 9.0]})
    assert (
        "The goal, 10 s: yes. Beside\n5 releases, a quarter of them, it takes 4.2 (4.0 to 4.5) times"
        in report.render(measured)
    )
    slow = msgspec.structs.replace(run(), site_s={"5": [1.0, 2.0], "20": [4.0, 11.0]})
    assert "The goal, 10 s: in 1 of 2." in report.render(slow)


def cost(fixed_s: float, again_s: float = 6.0) -> release.Cost:
    return release.Cost(
        rows=300, non_passes=60, once_s=30.0, again_s=again_s, sample_s=fixed_s - 5.0, servers_s=5.0
    )


def test_the_cost_of_a_release_is_scaled_but_for_what_is_fixed() -> None:
    found = cost(15.0)

    assert (found.whole_s, found.repeats_s, found.fixed_s) == (150.0, 30.0, 15.0)


@pytest.mark.parametrize(
    ("found", "is_met"), [(cost(15.0), True), (cost(28.0), False), (cost(15.0, again_s=9.0), False)]
)
def test_the_goal_of_a_release_is_a_share_and_seconds(found: release.Cost, is_met: bool) -> None:
    assert found.is_met is is_met


def test_a_release_is_told_where_it_was_measured() -> None:
    assert report.of_a_release([]) == ""
    measured = msgspec.structs.replace(run(), releases=[cost(15.0), cost(28.0)])

    page = report.render(measured)

    assert "each row once 150 (150 to 150)" in page
    assert "20 (20 to 20) % of that" in page
    assert "at most 25 % and 20 s beyond each row once: in 1 of 2." in page


def test_a_section_is_written_into_the_page_that_is_there() -> None:
    before = msgspec.structs.replace(run(), site_s={str(pages.FEW): [1.0], str(pages.MANY): [2.0]})
    page = report.render(before)
    once = report.with_section(page, report.of_a_release([cost(15.0)]))
    again = report.with_section(once, report.of_a_release([cost(28.0)]))

    assert once == report.render(msgspec.structs.replace(before, releases=[cost(15.0)]))
    assert again == report.render(msgspec.structs.replace(before, releases=[cost(28.0)]))
