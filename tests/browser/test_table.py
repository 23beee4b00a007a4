"""The table in a browser: search, filters, the view in the address, cells, keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

Open = Callable[..., Page]
TABLE = "table/gloo-cpu-2.html"
GRADIENTS, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
SUM, AVG = "collectives.all_reduce[op=sum]", "collectives.all_reduce[op=avg]"
GPIPE, SAVE, HOSTILE = "pp.gpipe", "dcp.save", "tp.hostile"
ALL = [GRADIENTS, MENDED, SUM, AVG, SAVE, GPIPE, HOSTILE]
SHOWN = "cells => cells.filter(one => one.checkVisibility()).map(one => one.firstChild.textContent.trim())"


def rows(page: Page) -> list[str]:
    """Return the ids of the rows that are shown."""
    found: list[str] = page.locator("#matrix tbody th[scope=row]").evaluate_all(SHOWN)
    return found


def columns(page: Page) -> list[str]:
    found: list[str] = page.locator("#matrix thead th:not(.corner)").evaluate_all(SHOWN)
    return found


def choice(page: Page, name: str) -> Locator:
    return page.get_by_role("combobox", name=name, exact=True)


def hash_of(page: Page) -> str:
    return page.url.partition("#")[2]


def same(found: list[str], wanted: list[str]) -> bool:
    return sorted(found) == sorted(wanted)


# ---- searching and filtering ---------------------------------------------------------------------


SEARCHES = {
    "fsdp2": [GRADIENTS, MENDED],
    "REDUCE=default": [GRADIENTS],
    "those of one process": [GRADIENTS],  # Of its title.
    "record_event": [GRADIENTS],  # Of an error.
    "162338": [GRADIENTS],  # An issue of its quirk.
    "too large": [GRADIENTS],  # Of its quirk's title.
    "process attributeerror": [GRADIENTS],
    "all_reduce avg": [AVG],
    "nothing of that name": [],
}


def test_search(open_page: Open) -> None:
    page = open_page(TABLE)
    for text, wanted in SEARCHES.items():
        page.get_by_label("Search").fill(text)
        page.wait_for_function(
            "number => document.querySelector('output').value.startsWith(number + ' ')", arg=len(wanted)
        )
        assert same(rows(page), wanted), text
        said = page.get_by_role("status").inner_text()
        assert said == f"{len(wanted)} of 7 rows, 4 of 5 releases"


def test_the_texts_to_search_in_are_loaded_once_and_only_when_needed(open_page: Open) -> None:
    page = open_page(TABLE)
    texts = page.locator("script[src*='search.js']")
    assert texts.count() == 0
    page.get_by_label("Search").fill("a")
    page.get_by_label("Search").fill("ab")
    assert texts.count() == 1


CHOICES: list[tuple[str, str, list[str], int]] = [
    ("Family", "fsdp2", [GRADIENTS, MENDED], 4),
    ("Status", "wrong", [GRADIENTS], 4),
    ("Status", "unsupported", [AVG], 4),
    ("Status", "not_run", [SAVE], 4),
    ("Status", "hang", [], 4),
    ("Status", "not-pass", [GRADIENTS, MENDED, AVG, SAVE, GPIPE, HOSTILE], 4),
    ("From", "2.9", ALL, 1),
    ("to", "2.7", ALL, 2),
]


def test_choices(open_page: Open) -> None:
    page = open_page(TABLE)
    for name, value, wanted, releases in CHOICES:
        choice(page, name).select_option(value)
        assert same(rows(page), wanted), (name, value)
        assert len(columns(page)) == releases, (name, value)
        choice(page, name).select_option("")


def test_a_range_of_releases_decides_what_a_status_is_looked_for_in(open_page: Open) -> None:
    page = open_page(f"{TABLE}#from=2.8&to=2.8&status=wrong")
    assert columns(page) == ["2.8.0"]
    assert rows(page) == [GRADIENTS]
    choice(page, "From").select_option("2.9")
    choice(page, "to").select_option("2.9")
    assert (columns(page), rows(page)) == (["2.9.0"], [])
    choice(page, "Status").select_option("crash")
    assert rows(page) == [GPIPE]


def test_supported_releases_only(open_page: Open) -> None:
    page = open_page(TABLE)
    page.get_by_label("supported releases only").check()
    assert columns(page) == ["2.9.0", "2.8.0", "2.7.1"]


def test_only_rows_that_differ(open_page: Open) -> None:
    page = open_page(TABLE)
    page.get_by_label("only rows that differ").check()
    assert same(rows(page), [GRADIENTS, MENDED, AVG, SAVE, GPIPE])
    choice(page, "From").select_option("2.9")
    assert rows(page) == []


def test_a_release_that_could_not_be_measured_makes_no_row_differ(open_page: Open) -> None:
    page = open_page(f"failed/{TABLE}")
    assert "2.6.0" in columns(page)
    page.get_by_label("only rows that differ").check()
    assert same(rows(page), [GRADIENTS, MENDED, AVG, SAVE, GPIPE])
    choice(page, "From").select_option("2.6")
    choice(page, "to").select_option("2.6")
    assert rows(page) == []


def test_families_and_features_without_a_row_are_hidden(open_page: Open) -> None:
    page = open_page(f"{TABLE}#family=fsdp2")
    heads = page.locator("#matrix tbody th[scope=rowgroup]").evaluate_all(SHOWN)
    assert heads == ["fsdp2", "gradients", "gradients+force_sum"]


def test_older_patches_are_folded_and_opened_by_a_button(open_page: Open) -> None:
    page = open_page(TABLE)
    button = page.get_by_role("button", name="Older patches of 2.7")
    assert columns(page) == ["2.9.0", "2.8.0", "2.7.1", "2.4.1"]
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert columns(page) == ["2.9.0", "2.8.0", "2.7.1", "2.7.0", "2.4.1"]
    assert button.get_attribute("aria-expanded") == "true"
    assert hash_of(page) == "open=2.7"
    choice(page, "Status").select_option("hang")
    assert rows(page) == [SUM]
    button.click()
    assert (columns(page), rows(page)) == (["2.9.0", "2.8.0", "2.7.1", "2.4.1"], [])


# ---- the address ---------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["file", "server"])
def test_a_view_can_be_linked(open_page: Open, address: str) -> None:
    page = open_page(TABLE, address)
    page.get_by_label("Search").fill("reduce")
    choice(page, "Family").select_option("collectives")
    choice(page, "Status").select_option("unsupported")
    choice(page, "From").select_option("2.7")
    choice(page, "to").select_option("2.8")
    page.get_by_label("supported releases only").check()
    page.get_by_label("only rows that differ").check()
    view = "q=reduce&family=collectives&status=unsupported&from=2.7&to=2.8&supported=1&differ=1"
    assert hash_of(page) == view

    other = open_page(f"{TABLE}#{view}", address)
    assert (rows(other), columns(other)) == (rows(page), columns(page)) == ([AVG], ["2.8.0", "2.7.1"])
    assert other.get_by_label("Search").input_value() == "reduce"
    assert choice(other, "Family").input_value() == "collectives"
    assert other.get_by_label("only rows that differ").is_checked()


def test_back_and_forward_go_from_view_to_view(open_page: Open) -> None:
    page = open_page(TABLE)
    choice(page, "Family").select_option("fsdp2")
    page.get_by_label("Search").press_sequentially("force")
    choice(page, "Family").select_option("pp")
    page.go_back()
    assert hash_of(page) == "q=force&family=fsdp2"
    assert rows(page) == [MENDED]
    page.go_back()
    assert same(rows(page), ALL)
    assert page.get_by_label("Search").input_value() == ""
    page.go_forward()
    assert rows(page) == [MENDED]


def test_clear_shows_everything_again(open_page: Open) -> None:
    page = open_page(f"{TABLE}#q=avg&open=2.7&differ=1")
    page.get_by_role("button", name="Clear").click()
    assert (len(rows(page)), len(columns(page)), hash_of(page)) == (7, 4, "")


def test_what_an_address_names_and_the_table_lacks_is_left_out(open_page: Open) -> None:
    page = open_page(f"{TABLE}#family=gone&status=gone&from=1.0&open=1.0&more=x")
    assert (len(rows(page)), len(columns(page))) == (7, 4)


def test_another_table_opens_with_the_same_view(open_page: Open) -> None:
    page = open_page(f"{TABLE}#family=collectives")
    page.get_by_role("link", name="4 ranks").click()
    page.wait_for_url("**/gloo-cpu-4.html*")
    assert hash_of(page) == "family=collectives"
    assert rows(page) == [SUM]


@pytest.mark.parametrize("address", ["file", "server"])
def test_the_first_pages_search_leads_to_the_rows(open_page: Open, address: str) -> None:
    page = open_page("index.html", address)
    page.get_by_role("searchbox").fill("too large")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url(f"**/{TABLE}*")
    page.wait_for_function("document.querySelector('output').value.startsWith('1 ')")
    assert rows(page) == [GRADIENTS]
    page.get_by_role("button", name="Clear").click()
    page.reload()
    assert same(rows(page), ALL)


def test_the_first_pages_numbers_lead_to_their_rows(open_page: Open) -> None:
    page = open_page("index.html")
    page.get_by_role("row", name="fsdp2").get_by_role("link", name="1/2").first.click()
    page.wait_for_url(f"**/{TABLE}*")
    assert (columns(page), rows(page)) == (["2.8.0"], [GRADIENTS, MENDED])


# ---- cells ---------------------------------------------------------------------------------------


def cell(page: Page, row_id: str, channel: str) -> str:
    number = [one.split()[0] for one in page.locator("#matrix thead th").all_inner_texts()].index(channel)
    page.locator("#matrix tr", has_text=row_id).locator(f"> :nth-child({number + 1}) a").first.click()
    page.wait_for_url("**/rows/**")
    return page.url.rpartition("/")[2]


@pytest.mark.parametrize(
    ("row_id", "channel", "wanted"),
    [
        (GRADIENTS, "2.7.1", "fsdp2.gradients-reduce~default.html#2.7.1-cuda-nodriver-2"),
        (GRADIENTS, "2.8.0", "fsdp2.gradients-reduce~default.html#2.8.0-cpu-2"),
        (SAVE, "2.9.0", "dcp.save.html#2.9.0-cuda-nodriver-2"),
    ],
    ids=["wrong", "one of two builds", "a plain pass"],
)
def test_a_cell_leads_to_its_evidence(open_page: Open, row_id: str, channel: str, wanted: str) -> None:
    page = open_page(TABLE)
    assert cell(page, row_id, channel) == wanted
    target = page.locator(":target")
    assert target.count() == 1
    assert target.is_visible()


def test_unknown_and_not_run_do_not_look_like_a_pass(open_page: Open) -> None:
    page = open_page(TABLE)
    looks = {
        status: page.locator(f"#matrix .s-{status}").first.evaluate(
            "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one, '::before').content]"
        )
        for status in ("pass", "not_run")
    }
    assert looks["pass"][0] != looks["not_run"][0] == "rgba(0, 0, 0, 0)"
    assert looks["pass"][1] != looks["not_run"][1]


# ---- without a script, and by keyboard -----------------------------------------------------------


def test_without_a_script_all_of_the_table_can_be_read(open_page: Open) -> None:
    page = open_page(TABLE, java_script_enabled=False)
    assert page.locator("#filters").is_hidden()
    assert page.get_by_role("columnheader").count() == 6
    assert page.get_by_role("row", name=GRADIENTS).get_by_role("link", name="wrong").first.is_visible()
    assert page.get_by_role("row", name=AVG).get_by_text("pass").count() == 2


def test_a_slash_leads_to_the_search(open_page: Open) -> None:
    page = open_page(TABLE)
    page.keyboard.press("/")
    page.keyboard.type("a/b")
    assert page.get_by_label("Search").input_value() == "a/b"


def test_everything_is_reached_by_keyboard_and_the_focus_is_seen(open_page: Open) -> None:
    page = open_page(TABLE)
    names = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => {
                const one = document.activeElement;
                const look = (part) => parseFloat(getComputedStyle(one, part).outlineWidth) > 0
                    && getComputedStyle(one, part).outlineStyle !== "none";
                const name = one.getAttribute("aria-label") || one.name || one.textContent;
                return [name.trim(), look(null) || look("::after")];
            }"""
        )
        assert outline, f"no outline on {name!r}"
        names.append(name)
    assert names[0] == "Skip to the content"
    for name in (
        "Table",
        "q",
        "family",
        "status",
        "supported",
        "differ",
        "Clear",
        "Legend",
        "Table, scrollable",
    ):
        assert name in names
    for name in (GRADIENTS, "wrong", "pass"):
        assert name in names


def test_a_cell_is_opened_by_keyboard(open_page: Open) -> None:
    page = open_page(TABLE)
    page.get_by_role("row", name=GRADIENTS).get_by_role("link", name="wrong").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/rows/**#2.7.1-cuda-nodriver-2")


def test_a_screen_reader_hears_what_a_cell_is(open_page: Open) -> None:
    page = open_page(TABLE)
    assert (
        page.get_by_role("table", name="gloo on cpu, linux x86_64, 2 ranks: the status of each row").count()
        == 1
    )
    head = page.get_by_role("rowheader", name=GRADIENTS)
    assert head.count() == 1
    cells = page.get_by_role("row", name=SUM).get_by_role("cell").all_inner_texts()
    assert [text.strip() for text in cells] == ["pass"] * 4


# ---- narrow --------------------------------------------------------------------------------------


def test_heads_and_first_column_stay_in_view_and_leave_room(open_page: Open) -> None:
    page = open_page(TABLE, viewport={"width": 360, "height": 740})
    box = page.locator(".tall")
    box.evaluate("one => { one.style.maxHeight = '200px'; one.scrollTo(100, 150); }")
    frame = box.bounding_box()
    corner = page.locator("#matrix .corner").bounding_box()
    head = page.get_by_role("rowheader", name=HOSTILE).bounding_box()
    assert frame
    assert corner
    assert head
    assert box.evaluate("one => [one.scrollLeft, one.scrollTop]") == [100, 150]
    assert abs(corner["x"] - frame["x"]) < 2
    assert abs(corner["y"] - frame["y"]) < 2
    assert abs(head["x"] - frame["x"]) < 2
    assert head["width"] <= 0.45 * 360
