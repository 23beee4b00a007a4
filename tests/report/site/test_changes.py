"""What changed: each release against the one before, and the data by which a script compares any two."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up import outcome, record
from made_up_pages import HOSTILE, Page, committed, hostile, site, words
from playwright import sync_api as playwright

from canishard import files
from canishard.facts.compare import compare
from canishard.launch.outcome import Status
from canishard.report.changes import WORDS
from canishard.report.site.base import FOLDER, Site
from canishard.report.site.cells import places
from canishard.report.site.changes import lookup, pages, pairs, script

NAME = "torch-{}-cuda-nodriver-gloo-cpu-cp311-linux-x86_64"


def full() -> Site:
    return site(
        record(outcome("a.x"), outcome("b.x", 2, "wrong", deviation="sum"), channel="2.7.1"),
        record(
            outcome("a.x", 2, "wrong", deviation="sum"),
            outcome("a.x", 4, "wrong", deviation="sum"),
            outcome("b.x", 2, "wrong", deviation="max"),
            outcome("c.x", 2, "error", digest="fedcba9876543210"),
        ),
        record(
            outcome("a.x"),
            outcome("a.x", 4),
            outcome("b.x", 2, "not_run"),
            outcome("c.x", 2, "flaky"),
            channel="2.9.1",
        ),
    )


def steps(of: Site) -> list[tuple[str, str]]:
    return [
        (f"{old.channel} {old.label}", f"{new.channel} {new.label}")
        for place in places(of)
        for old, new in pairs(place)
    ]


# ---- each release against the one before ---------------------------------------------------------


def test_the_summary_counts_cells() -> None:
    found = Page(pages(full())["changes.html"])
    heads, *lines = [[words(cell) for cell in line] for line in found.all("table", "summary")[0].iter("tr")]
    assert heads == ["release", "against", *(word for word in WORDS.values() if word != "same")]
    assert lines == [
        ["2.9.1", "2.8.0", "0", "0", "0", "1", "1", "0", "0", "2"],
        ["2.8.0", "2.7.1", "1", "0", "1", "0", "0", "0", "2", "0"],
    ]


def test_every_change_is_listed_with_its_cells() -> None:
    found = Page(pages(full())["changes.html"])
    listed = [[words(cell) for cell in line[0]] for line in found.all("tbody")]
    assert listed[1:] == [
        ["b.x", "2", "wrong max", "not run"],
        ["c.x (the check changed too)", "2", "error", "flaky"],
        ["a.x", "2, 4", "wrong sum", "pass"],
        ["a.x", "2", "pass", "wrong sum"],
        ["b.x", "2", "wrong sum", "wrong max"],
        ["a.x", "4", "absent", "wrong sum"],
    ]
    assert "rows/a.x.html#2.8.0-cuda-nodriver-2" in found.links
    step = f"to-{NAME.format('2.9.1')}-from-{NAME.format('2.8.0')}"
    assert f"#{step}-fixed" in found.links
    assert {step, f"{step}-fixed"} <= set(found.ids)


def test_the_same_build_is_preferred() -> None:
    of = site(
        record(channel="2.7.1"),
        record(channel="2.8.0"),
        record(channel="2.8.0", python="3.12"),
        record(channel="2.8.0", flavour="cpu"),
        record(channel="2.9.0", flavour="cpu"),
        record(channel="2.9.1"),
    )
    assert steps(of) == [
        ("2.9.0 cpu", "2.9.1 nodrv"),
        ("2.8.0 cpu", "2.9.0 cpu"),
        ("2.7.1 nodrv", "2.8.0 nodrv py3.11"),
    ]
    assert (
        "The builds differ, so a change may be the build's: CUDA build, no driver, Python 3.11 (2.9.1)"
        not in Page(pages(of)["changes.html"]).text
    )


def test_builds_that_differ_are_named() -> None:
    of = site(record(outcome("a.x"), flavour="cpu"), record(outcome("a.x", 2, "hang"), channel="2.9.1"))
    text = Page(pages(of)["changes.html"]).text
    assert "2.9.1 2.8.0 (another build)" in text
    assert (
        "The builds differ, so a change may be the build's: CUDA build, no driver, Python 3.11 (2.9.1), CPU build, "
        "Python 3.11 (2.8.0)."
    ) in text


def test_what_is_no_release_stands_against_the_newest_one() -> None:
    of = site(*(record(channel=channel) for channel in ("nightly", "2.8.0", "2.10.0", "local")))
    assert steps(of) == [
        ("2.10.0 nodrv", "local nodrv"),
        ("2.10.0 nodrv", "nightly nodrv"),
        ("2.8.0 nodrv", "2.10.0 nodrv"),
    ]
    assert steps(site(record(channel="nightly"))) == []


def test_one_release_and_none() -> None:
    assert "there is nothing to compare it with" in Page(pages(site(record()))["changes.html"]).text
    assert "Nothing was measured yet." in Page(pages(site())["changes.html"]).text


def test_hostile_text_stays_text() -> None:
    of = site(
        record(hostile("a.x"), backend=HOSTILE), record(outcome("a.x"), channel="2.9.1", backend=HOSTILE)
    )
    made = pages(of)
    assert HOSTILE.encode() not in made["changes.html"] + made["compare.html"]
    assert [script.get("src") for script in Page(made["changes.html"]).all("script")] == ["static/site.js"]


def test_committed_records() -> None:
    found = Page(pages(committed())["changes.html"])
    (step,) = [words(line) for line in found.all("tr") if words(line).startswith("2.9.1 2.8.0")]
    assert step == "2.9.1 2.8.0 0 4 0 0 0 0 0 37"


# ---- any two -------------------------------------------------------------------------------------


def data(of: Site) -> dict[str, Any]:
    text = script(places(of)).decode()
    assert text.isascii()
    assert text.startswith("globalThis.canishardCompare = ")
    loaded: dict[str, Any] = json.loads(
        text.removeprefix("globalThis.canishardCompare = ").removesuffix(";\n")
    )
    return loaded


def test_the_lookup_is_what_compare_says_of_every_pair() -> None:
    order, sides, table = list(WORDS), [*Status, None], lookup()
    for (row, old), (column, new) in itertools.product(enumerate(sides), repeat=2):
        for number, deviation in enumerate(("a", "b")):
            before = outcome("x", status=old, deviation="a") if old else None
            after = outcome("x", status=new, deviation=deviation) if new else None
            assert order[table[row][column][number]] is compare(before, after)


def test_the_data_of_the_script() -> None:
    found = data(full())
    (group,) = found["groups"]
    assert (group["key"], group["title"]) == ("gloo-cpu", "gloo on cpu, linux x86_64")
    assert group["builds"][0] == [
        "2.9.1",
        "2.9.1 (CUDA build, no driver, Python 3.11)",
        "2.9.1-cuda-nodriver",
    ]
    assert group["rows"] == [["a.x", "a.x", 2], ["a.x", "a.x", 4], ["b.x", "b.x", 2], ["c.x", "c.x", 2]]
    states = [
        [
            None if state < 0 else (found["statuses"][found["states"][state][0]], found["states"][state][1])
            for state in one
        ]
        for one in group["cells"]
    ]
    assert states == [
        [("pass", ""), ("pass", ""), ("not_run", ""), ("flaky", "")],
        [("wrong", "sum"), ("wrong", "sum"), ("wrong", "max"), ("error", "")],
        [("pass", ""), None, ("wrong", "sum"), None],
    ]


def test_builds_of_one_release_have_keys_of_their_own() -> None:
    of = site(record(), record(flavour="cpu"), record(channel="2.9.1", system="darwin", machine="arm64"))
    assert [(group["key"], [build[0] for build in group["builds"]]) for group in data(of)["groups"]] == [
        ("gloo-cpu-darwin-arm64", ["2.9.1"]),
        ("gloo-cpu", ["2.8.0-cpu", "2.8.0-nodrv"]),
    ]


def test_without_a_script_the_page_leads_on() -> None:
    found = Page(pages(full())["compare.html"])
    assert "Choosing two releases needs a script" in found.text
    assert "changes.html" in found.links
    assert [script.get("src") for script in found.all("script")] == [
        "static/site.js",
        "compare-data.js",
        "static/compare.js",
    ]


# ---- in a browser --------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path, browser: playwright.Browser) -> Iterator[playwright.Page]:
    """Open the page that compares two releases from a file; nothing may be said in the console."""
    written = pages(full()) | {
        f"static/{path.name}": path.read_bytes() for path in (FOLDER / "static").iterdir()
    }
    for name, content in written.items():
        files.replace(tmp_path / name, content)
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "compare.html").as_uri())
    yield page
    page.close()
    assert said == []


@pytest.mark.browser
def test_two_releases_are_chosen_and_linked(opened: playwright.Page) -> None:
    said = opened.locator("#said")
    assert said.inner_text() == "1 cell lost coverage, 1 cell indeterminate, 2 cells fixed; 0 cells the same."
    opened.select_option("#old", "2.7.1")
    assert said.inner_text() == "1 cell lost coverage, 2 cells added; 1 cell the same."
    opened.select_option("#new", "2.8.0")
    assert opened.url.endswith("#old=2.7.1&new=2.8.0&group=gloo-cpu")
    assert opened.locator("h2").all_inner_texts() == [
        "Newly wrong: 1 cell",
        "Changed kind: 1 cell",
        "Added: 2 cells",
    ]
    assert opened.locator("tbody tr").all_inner_texts() == [
        "a.x\t2\tpass\twrong sum",
        "b.x\t2\twrong sum\twrong max",
        "a.x\t4\tabsent\twrong sum",
        "c.x\t2\tabsent\terror",
    ]
    href = opened.locator("tbody a.s").nth(1).get_attribute("href")
    assert href == "rows/a.x.html#2.8.0-cuda-nodriver-2"
    opened.click("#swap")
    assert opened.url.endswith("#old=2.8.0&new=2.7.1&group=gloo-cpu")
    assert said.inner_text() == "1 cell changed kind, 2 cells removed, 1 cell fixed; 0 cells the same."


@pytest.mark.browser
def test_a_link_restores_the_choice_and_a_wrong_one_falls_back(opened: playwright.Page) -> None:
    opened.goto(f"{opened.url}#old=2.8.0&new=2.7.1&group=gloo-cpu")
    assert opened.input_value("#old") == "2.8.0"
    assert opened.locator("#said").inner_text().endswith("1 cell fixed; 0 cells the same.")
    opened.goto(f"{opened.url.partition('#')[0]}#old=1.0&new=&group=x")
    assert (opened.input_value("#old"), opened.input_value("#new")) == ("2.8.0", "2.9.1")
