"""The table's page: what stands where, what a cell links to, and how large it grows."""

from __future__ import annotations

import time
from typing import Any

import pytest
from made_up import failed, outcome, quirk, record
from made_up_pages import HOSTILE, Page, entry, site, words

from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.record.unmeasured import Unmeasured
from canishard.releases import Release
from canishard.report.site import rows as row_pages
from canishard.report.site import table
from canishard.report.site.base import Site, cell_anchor, cell_link
from canishard.report.site.table import Tally, pages

ID, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
PATH = "table/gloo-cpu-2.html"
SUM, AVG = "collectives.all_reduce[op=sum]", "collectives.all_reduce[op=avg]"


def page(of: Site, path: str = PATH) -> Page:
    return Page(pages(of)[path])


def lines(found: Page) -> dict[str, list[Any]]:
    """Return the cells of every row by its id."""
    rows = [line for line in found.all("tr") if not line.get("class") and line[0].get("scope") == "row"]
    return {words(line[0][0]): list(line[1:]) for line in rows}


def column(found: Page, channel: str) -> int:
    heads = [words(head).split()[0] for head in found.all("thead")[0][0]]
    return heads.index(channel) - 1


def links(cell: Any) -> list[str]:
    return [element.get("href", "") for element in cell.iter("a")]


# ---- columns -------------------------------------------------------------------------------------


def test_a_release_that_could_not_be_measured_says_so_with_the_reason() -> None:
    place = {"python": "3.11", "backend": "gloo", "device": "cpu", "day": "2026-02-01"}
    failing = Unmeasured(release="2.7.1", reason=HOSTILE, **place)
    found = page(site(record(outcome(SUM)), record(outcome(SUM), channel="2.9.1"), unmeasured=[failing]))
    heads = [words(head) for head in found.all("thead")[0][0]]
    assert heads[1:] == ["2.9.1 nodrv 2026-01-31", "2.8.0 nodrv 2026-01-31", "2.7.1 could not be measured"]
    reason = " ".join(f"{HOSTILE} (Python 3.11, 2026-02-01)".split())
    assert f"torch 2.7.1 could not be measured: {reason}." in found.text
    assert [words(cell) for cell in lines(found)[SUM]] == ["pass", "pass", "unknown"]
    assert links(lines(found)[SUM][-1]) == []


def test_columns_are_releases_newest_first_with_their_builds_and_the_day() -> None:
    found = page(
        site(
            record(outcome(SUM), channel="2.9.1", ended="2026-03-04T05:06:07Z"),
            record(outcome(SUM), channel="2.10.0"),
            record(outcome(SUM), channel="2.9.1", flavour="cpu"),
        )
    )
    heads = found.all("thead")[0][0]
    assert [words(head) for head in heads] == [
        "Row",
        "2.10.0 nodrv 2026-01-31",
        "2.9.1 cpu nodrv 2026-03-04",
    ]
    assert heads[1][0].get("title") == "torch 2.10.0+cu128, CUDA build, no driver, Python 3.11.9"
    assert {head.get("scope") for head in heads} == {"col"}


def test_older_patches_are_marked_to_be_folded() -> None:
    channels = ["2.8.0", "2.8.1", "2.9.0", "nightly"]
    heads = page(site(*(record(outcome(SUM), channel=channel) for channel in channels))).all("thead")[0][0]
    assert [(head.get("data-minor"), head.get("data-folded") is not None) for head in heads[1:]] == [
        ("nightly", False),
        ("2.9", False),
        ("2.8", False),
        ("2.8", True),
    ]


def test_supported_columns_are_marked() -> None:
    days = {"2.4.1": "2024-07-04", "2.8.0": "2026-07-01", "2.9.0": "2026-08-01"}
    known = [Release(version=version, released=day) for version, day in days.items()]
    channels = ["2.4.1", "2.8.0", "nightly"]
    heads = page(site(*(record(outcome(SUM), channel=channel) for channel in channels), releases=known)).all(
        "thead"
    )[0][0]
    marked = [words(head).split()[0] for head in heads if head.get("data-supported") is not None]
    assert marked == ["nightly", "2.8.0"]


# ---- rows ----------------------------------------------------------------------------------------


def test_rows_stand_by_family_and_feature_and_what_is_silently_wrong_first() -> None:
    ids = ["a.right[n=1]", "a.right[n=2]", "b.fails", "b.other", "c.fine", "c.wrong", "c.worse"]
    statuses = {"b.fails": "error", "c.wrong": "wrong", "c.worse": "wrong"}
    found = page(
        site(
            record(*(outcome(row_id, status=statuses.get(row_id, "pass")) for row_id in ids)),
            catalogue={
                row_id: entry(row_id, feature=row_id.split("[")[0], title=f"Title of {row_id}")
                for row_id in ids
                if row_id != "b.other"
            },
        )
    )
    assert [words(line[0]) for line in found.all("tr")[1:]] == [
        "c",
        "c.worse",
        "c.worse Title of c.worse",
        "c.wrong",
        "c.wrong Title of c.wrong",
        "c.fine",
        "c.fine Title of c.fine",
        "b",
        "b.fails",
        "b.fails Title of b.fails",
        "b.other",
        "a",
        "a.right",
        "a.right[n=1] Title of a.right[n=1]",
        "a.right[n=2] Title of a.right[n=2]",
    ]
    assert [body.get("data-family") for body in found.all("tbody")] == ["c", "b", "a"]


def test_a_title_that_all_rows_of_a_feature_share_is_said_once() -> None:
    found = page(
        site(record(outcome(SUM), outcome(AVG)), catalogue={row_id: entry(row_id) for row_id in (SUM, AVG)})
    )
    assert [words(line[0]) for line in found.all("tr")[1:]] == [
        "collectives",
        "feature It is right",
        AVG,
        SUM,
    ]


def test_a_familys_line_counts_what_passes_of_what_was_measured() -> None:
    measured = record(outcome(SUM), outcome(AVG, status="wrong"), outcome("collectives.x", status="not_run"))
    older = record(outcome(AVG, status="not_run"), channel="2.7.0")
    line = next(line for line in page(site(measured, older)).all("tr") if line.get("class") == "fam")
    assert [(words(cell), cell.get("class")) for cell in line[1:]] == [("1/2", "h-2"), ("", "h-none")]


def test_a_row_leads_to_its_page_and_to_the_quirks_that_it_shows() -> None:
    named = quirk(title='It "sums"'), quirk(name="other", cases=["pp.*"])
    found = page(site(record(outcome(ID, status="wrong"), outcome(MENDED)), quirks=named))
    heads = {words(head[0]): head for head in found.all("th") if head.get("scope") == "row"}
    assert links(heads[MENDED]) == ["../rows/fsdp2.gradients+force_sum.html"]
    assert links(heads[ID]) == ["../rows/fsdp2.gradients-reduce~default.html", "../quirks/sums.html"]
    assert heads[ID][1].get("title") == 'It "sums"'


def test_only_the_rows_and_quirks_of_that_number_of_ranks_are_there() -> None:
    made = site(record(outcome(ID, 2), outcome(ID, 4, "wrong"), outcome(SUM, 4)), quirks=[quirk()])
    two, four = page(made), page(made, "table/gloo-cpu-4.html")
    assert list(lines(two)) == [ID]
    assert list(lines(four)) == [ID, SUM]
    assert "quirk" not in words(two.all("table")[0])
    assert "quirk" in words(four.all("table")[0])


# ---- cells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.INFRA])
def test_a_cell_is_its_class_and_its_word(status: Status) -> None:
    cells = [] if status is Status.UNKNOWN else [outcome(SUM, status=status)]
    made = site(record(*cells, outcome(AVG)), record(outcome(SUM), channel="2.9.0"))
    found = page(made)
    (cell,) = [lines(found)[SUM][column(found, "2.8.0")]]
    assert cell.get("class") == f"s-{status.value}"
    assert words(cell) == status.value.replace("_", " ")


def test_what_does_not_pass_links_to_its_place_on_the_rows_page() -> None:
    measured = record(outcome(ID, status="wrong"))
    made = site(measured)
    (cell,) = lines(page(made))[ID]
    assert links(cell) == [f"../{cell_link(measured.environment, ID, 2)}"]
    path, _, anchor = cell_link(measured.environment, ID, 2).partition("#")
    assert anchor in Page(row_pages.pages(made)[path]).ids


def test_a_plain_pass_gets_its_link_from_what_the_columns_head_says() -> None:
    measured = record(outcome(ID))
    found = page(site(measured))
    (cell,) = lines(found)[ID]
    assert links(cell) == [""]
    anchor = found.all("thead")[0][0][1].get("data-anchor")
    size = found.by_id("matrix").get("data-world-size")
    assert anchor + size == cell_anchor(measured.environment, 2)


def test_what_no_record_has_is_no_link() -> None:
    found = page(site(record(outcome(SUM), channel="2.9.0"), record(outcome(AVG))))
    cell = lines(found)[AVG][column(found, "2.9.0")]
    assert (words(cell), links(cell)) == ("unknown", [])


def test_builds_that_differ_are_both_shown_each_with_its_link() -> None:
    first, second = record(outcome(ID, status="wrong"), flavour="cpu"), record(outcome(ID))
    (cell,) = lines(page(site(first, second)))[ID]
    assert [(element.get("class"), words(element)) for element in cell] == [
        ("s-wrong", "wrong cpu"),
        ("s-pass", "pass nodrv"),
    ]
    assert links(cell) == [f"../{cell_link(one.environment, ID, 2)}" for one in (first, second)]
    assert cell.get("class") is None


@pytest.mark.parametrize(
    ("passed", "measured", "heat"),
    [(0, 0, "h-none"), (4, 4, "h-0"), (3, 4, "h-1"), (2, 4, "h-2"), (1, 4, "h-3"), (0, 4, "h-3")],
)
def test_heat(passed: int, measured: int, heat: str) -> None:
    assert Tally(passed=passed, wrong=0, measured=measured).heat == heat


# ---- other tables, and none ----------------------------------------------------------------------


def test_every_backend_and_number_of_ranks_has_a_page_that_leads_to_the_others() -> None:
    made = site(
        record(outcome(SUM, 2), outcome(SUM, 4)),
        record(outcome(SUM, 1), backend="cpu:gloo,cuda:nccl", device="cuda"),
        record(outcome(SUM, 2), machine="arm64", system="darwin"),
    )
    found = pages(made)
    assert set(found) == {
        "table/gloo-cpu-2.html",
        "table/gloo-cpu-4.html",
        "table/cpu_gloo_cuda_nccl-cuda-1.html",
        "table/gloo-cpu-2-darwin-arm64.html",
    }
    switch = next(nav for nav in Page(found[PATH]).all("nav") if nav.get("class") == "switch")
    assert sorted(links(switch)) == sorted(f"../{path}" for path in found)
    assert [link.get("href") for link in switch.iter("a") if link.get("aria-current")] == [f"../{PATH}"]


def test_nothing_measured_has_no_table() -> None:
    assert pages(site()) == {}


# ---- size ----------------------------------------------------------------------------------------


def many(rows: int, columns: int) -> Site:
    """Return a site of made-up records, a third of whose cells fail."""
    ids = [f"family{row % 8}.some_function_{row // 8}[op=product,to=shard0]" for row in range(rows)]

    def cell(row_id: str, index: int, number: int) -> Outcome:
        if (index + number) % 3:
            return outcome(row_id)
        return failed(row_id) if index % 2 else outcome(row_id, status="wrong", deviation="summed")

    def one(number: int) -> Record:
        cells = [cell(row_id, index, number) for index, row_id in enumerate(ids)]
        return record(*cells, channel=f"2.{4 + number // 2}.{number % 2}")

    catalogue = {
        row_id: entry(row_id, title=f"Number {index} gives what one process gives, on every rank")
        for index, row_id in enumerate(ids)
    }
    return site(*map(one, range(columns)), catalogue=catalogue, supports=[])


def test_a_thousand_rows_on_twenty_releases_are_below_two_megabytes() -> None:
    (content,) = table.pages(many(1000, 20)).values()
    assert content.count(b"<td") > 20_000
    assert len(content) < 2_000_000


def test_time_grows_linearly_with_releases() -> None:
    def seconds(of: Site) -> float:
        pages(of)
        taken = []
        for _ in range(3):
            begun = time.process_time()
            pages(of)
            taken.append(time.process_time() - begun)
        return min(taken)

    few, lots = seconds(many(150, 5)), seconds(many(150, 20))
    assert lots < 4 * few * 2.5
