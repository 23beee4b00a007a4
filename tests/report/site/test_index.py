"""The first page, and what the search looks through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import failed, outcome, quirk, record
from made_up_pages import Page, committed, site, words

from canishard.launch.outcome import Status
from canishard.report.site import index, search
from canishard.report.site.base import Site

ID, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
SUMMED = "summed instead of averaged"


def page(of: Site) -> Page:
    return Page(index.pages(of)["index.html"])


def cards(found: Page) -> list[str]:
    return [words(card) for card in found.all("article", "card")]


# ---- quirks --------------------------------------------------------------------------------------


def test_a_silent_quirk_says_what_happens_where_what_to_do_and_where_that_was_measured() -> None:
    made = site(
        record(outcome(ID), outcome(MENDED), channel="2.9.1"),
        record(outcome(ID, status="wrong"), outcome(MENDED)),
        record(outcome(ID, status="wrong"), outcome(MENDED, status="missing"), channel="2.7.1"),
        quirks=[quirk(mends="Call `f()`.", workaround=MENDED)],
    )
    (card,) = cards(page(made))
    assert card == (
        "It sums wrong torch 2.7.1 to 2.8.0 on gloo on cpu It sums, whatever is asked for. What to do: Call f(). "
        "That was measured on gloo on cpu: pass on 2.8.0, missing on 2.7.1"
    )


def test_what_can_be_mended_stands_first_and_what_fails_loudly_apart() -> None:
    made = site(
        record(outcome(ID, status="wrong"), failed("pp.gpipe")),
        quirks=[
            quirk(name="loud", title="It fails", cases=["pp.*"], shows=[Status.ERROR]),
            quirk(name="silent"),
            quirk(name="mended", title="It can be mended", workaround=MENDED),
            quirk(name="gone", title="It was never seen", cases=["dcp.*"]),
        ],
    )
    found = page(made)
    assert [card.partition(" wrong ")[0] for card in cards(found)] == [
        "It can be mended",
        "It sums",
        "It was never seen",
    ]
    assert "error It fails: torch 2.8.0 on gloo on cpu" in found.text
    assert "It was never seen wrong on no measured release" in found.text


def test_builds_that_differ_are_named() -> None:
    made = site(record(outcome(ID, status="wrong"), flavour="cpu"), record(outcome(ID)), quirks=[quirk()])
    assert "torch 2.8.0 on gloo on cpu (CPU build)" in cards(page(made))[0]


def test_why_gradients_on_cpu_are_doubled_on_2_8_is_on_the_first_page() -> None:
    first = cards(page(committed()))[0]
    for part in ("FSDP2 on gloo: gradients are world_size times too large", "2.8.0", "gloo on cpu"):
        assert part in first
    assert "What to do: Call set_force_sum_reduction_for_comms(True)" in first
    assert "pass on 2.8.0" in first


# ---- how much passes -----------------------------------------------------------------------------


def lines(found: Page) -> list[list[str]]:
    (table,) = found.all("table")
    return [[words(cell) for cell in line] for line in table.iter("tr")]


def links(element: Any) -> list[str]:
    return [link.get("href") for link in element.iter("a")]


def test_the_summary_counts_all_numbers_of_ranks_and_says_when_a_column_was_measured() -> None:
    made = site(
        record(
            *(outcome(ID, size, "wrong") for size in (2, 4)),
            *(outcome("dcp.save", size) for size in (2, 4)),
            outcome("dcp.load", 4, "crash"),
        ),
        record(outcome("dcp.save"), channel="2.9.1", ended="2026-02-03T00:00:00Z"),
    )
    found = page(made)
    assert lines(found) == [
        ["Family", "2.9.1", "2.8.0"],
        ["fsdp2", "not measured", "0/2 2 wrong"],
        ["dcp", "1/1", "2/3"],
        ["build", "nodrv", "nodrv"],
        ["measured", "2026-02-03", "2026-01-31"],
    ]
    (table,) = found.all("table")
    table_page = "table/gloo-cpu-2.html"
    assert links(table) == [
        f"{table_page}#family=fsdp2",
        f"{table_page}#family=fsdp2&from=2.8&to=2.8",
        f"{table_page}#family=dcp",
        f"{table_page}#family=dcp&from=2.9&to=2.9",
        f"{table_page}#family=dcp&from=2.8&to=2.8",
    ]
    assert [cell.get("class") for cell in found.all("td")][:4] == ["h-none", "h-3", "h-0", "h-2"]


def test_every_table_is_linked() -> None:
    made = site(record(outcome(ID), outcome(ID, 4)), record(outcome(ID, 1), backend="nccl", device="cuda"))
    assert {path for _, _, path in made.tables} <= set(page(made).links)


def test_without_records_the_page_says_so() -> None:
    assert "Nothing has been measured yet." in page(site()).text


# ---- search --------------------------------------------------------------------------------------


def said(of: Site) -> dict[str, str]:
    content = search.pages(of)["search.js"].decode("ascii")
    assert content.startswith("canishardTexts(")
    assert content.endswith(");\n")
    found: dict[str, str] = json.loads(content.removeprefix("canishardTexts(").removesuffix(");\n"))
    return found


def test_the_search_knows_deviations_messages_quirks_and_issues_once_each() -> None:
    named = quirk(links=["https://github.com/pytorch/pytorch/issues/162338"])
    wrong = outcome(ID, status="wrong", deviation=SUMMED, message="gradients: got [2.0]")
    found = said(
        site(
            record(wrong, outcome(MENDED), failed("pp.x", message="no")),
            record(wrong, channel="2.7.1"),
            quirks=[named, quirk(name="other", cases=["pp.*"])],
        )
    )
    assert found == {
        ID: f"gradients: got [2.0] {SUMMED} sums It sums pytorch/pytorch#162338",
        "pp.x": "no",
    }


@pytest.mark.parametrize("text", ["\u2028", "</script>", '"); alert(1); ("', "\ud7ff\U0001f600", "\\"])
def test_no_text_breaks_out_of_the_script(text: str) -> None:
    assert said(site(record(failed("a.b", message=text)))) == {"a.b": text}
