"""Every kind of page in a browser: nothing is said, asked for elsewhere or run; dark, narrow, from a file and a server.

What ``open_page`` saw is checked when a test ends: the console, requests, and whether hostile text ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Open = Callable[..., Page]
PAGES = [
    "index.html",
    "table/gloo-cpu-2.html",
    "rows/fsdp2.gradients-reduce~default.html",
    "rows/tp.hostile.html",
    "quirks/index.html",
    "quirks/hostile.html",
    "changes.html",
    "compare.html",
    "claims.html",
    "method.html",
]


def visit(page: Page, addresses: dict[str, str], address: str = "file") -> Iterator[str]:
    for path in PAGES:
        page.goto(addresses[address] + path)
        yield path


@pytest.mark.parametrize("address", ["file", "server"])
def test_every_page_is_quiet_and_leads_back(open_page: Open, addresses: dict[str, str], address: str) -> None:
    page = open_page("index.html", address)
    for path in visit(page, addresses, address):
        assert page.get_by_role("heading", level=1).count() == 1, path
        assert not page.evaluate("'hacked' in window"), path
        page.get_by_role("link", name="Can I shard?").click()
        page.wait_for_url(addresses[address] + "index.html")


def test_every_page_fits_a_narrow_screen(open_page: Open, addresses: dict[str, str]) -> None:
    page = open_page("index.html", viewport={"width": 360, "height": 740})
    for path in visit(page, addresses):
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 29)")])
def test_pages_are_dark_where_that_is_wanted(
    open_page: Open, addresses: dict[str, str], scheme: str, ground: str
) -> None:
    page = open_page("index.html", color_scheme=scheme)
    for path in visit(page, addresses):
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground, path


def test_the_skip_link_leads_to_the_content(open_page: Open) -> None:
    page = open_page("index.html")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_from_the_first_page_to_the_evidence(open_page: Open) -> None:
    page = open_page("index.html")
    page.get_by_role("link", name="Gradients are too large").click()
    page.wait_for_url("**/quirks/summed.html")
    page.get_by_role("link", name="wrong").first.click()
    page.wait_for_url("**/rows/**")
    assert page.locator(":target").is_visible()
    page.get_by_role("link", name="Can I shard?").click()
    page.wait_for_url("**/index.html")
    page.get_by_role("navigation").get_by_role("link", name="Table").click()
    page.wait_for_url("**/table/**")
    assert page.get_by_role("heading", level=1).inner_text() == "gloo on cpu, linux x86_64, 2 ranks"


@pytest.mark.parametrize("address", ["file", "server"])
def test_two_releases_are_compared(open_page: Open, address: str) -> None:
    page = open_page("compare.html", address)
    page.get_by_label("Older").select_option(index=0)
    page.get_by_label("Newer").select_option(index=2)
    said = page.get_by_role("status").inner_text()
    view = page.url.partition("#")[2]
    assert "cell" in said
    assert open_page(f"compare.html#{view}", address).get_by_role("status").inner_text() == said
