"""A made-up site in a real browser: Debian's Chromium, driven by Playwright; nothing is downloaded.

Where there is no Chromium the tests are skipped, and fail where CANISHARD_REQUIRE_BROWSER is set.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_up import failed, outcome, quirk, record
from made_up_pages import site
from playwright.sync_api import Browser, Page, Request, Response, Route

from canishard import catalogue
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.record.unmeasured import Unmeasured
from canishard.releases import Release
from canishard.report.site import files
from canishard.report.site.base import Site

GRADIENTS, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
SUM, AVG = "collectives.all_reduce[op=sum]", "collectives.all_reduce[op=avg]"
GPIPE, SAVE, HOSTILE = "pp.gpipe", "dcp.save", "tp.hostile"
ATTACK = '"><img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
DAYS = {
    "2.4.1": "2023-09-04",
    "2.7.0": "2025-04-23",
    "2.7.1": "2025-06-04",
    "2.8.0": "2025-08-06",
    "2.9.0": "2025-10-15",
}


def rows(channel: str, **statuses: str) -> list[Outcome]:
    """Return a column at 2 ranks; what is not named passes."""
    named = {
        "gradients": GRADIENTS,
        "mended": MENDED,
        "sum": SUM,
        "avg": AVG,
        "gpipe": GPIPE,
        "save": SAVE,
    }
    found = [outcome(row_id, status=statuses.get(name, "pass")) for name, row_id in named.items()]
    return [*found, outcome(SUM, 4), failed(HOSTILE, message=f"{ATTACK} on {channel}")]


def made() -> Site:
    """Return a site in which every filter has something to keep and something to hide."""
    summed = {"gradients": "wrong"}
    refused = {"avg": "unsupported", "mended": "missing"}
    records: list[Record] = [
        record(*rows("2.9.0", gpipe="crash"), channel="2.9.0"),
        record(*rows("2.8.0", **summed), channel="2.8.0"),
        record(*rows("2.8.0"), channel="2.8.0", flavour="cpu"),
        record(*rows("2.7.1", **summed, **refused), channel="2.7.1"),
        record(*rows("2.7.0", **refused, sum="hang"), channel="2.7.0"),
        record(
            *(one for one in rows("2.4.1", save="not_run", **refused) if one.id != GRADIENTS),
            failed(GRADIENTS, message="AttributeError: no attribute 'record_event'"),
            channel="2.4.1",
        ),
        record(outcome(SUM), backend="nccl", device="cuda", flavour="cuda", channel="2.9.0"),
    ]
    titles = {GRADIENTS: "Gradients equal those of one process", SUM: "Every rank gets the reduction"}
    real = catalogue.load()[GRADIENTS]  # Its check is there, as a script is made from its source.
    entries = {
        row_id: msgspec.structs.replace(
            real,
            id=row_id,
            title=titles.get(row_id, ATTACK),
            feature=row_id.partition(".")[2].partition("[")[0],
        )
        for row_id in (GRADIENTS, MENDED, SUM, AVG, GPIPE, SAVE, HOSTILE)
    }
    quirks = [
        quirk(
            name="summed",
            title="Gradients are too large",
            links=["https://github.com/pytorch/pytorch/issues/162338"],
            mends="Call `f()`.",
            workaround=MENDED,
        ),
        quirk(name="hostile", title=ATTACK, what=ATTACK, mends=ATTACK, cases=["tp.*"], shows=[Status.ERROR]),
    ]
    known = [Release(version=version, released=day) for version, day in DAYS.items()]
    return site(*records, catalogue=entries, quirks=quirks, releases=known)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the site lies below a prefix, and below it the same with a release that failed."""
    top = tmp_path_factory.mktemp("reports")
    place = {"python": "3.11", "backend": "gloo", "device": "cpu", "day": "2026-01-31"}
    failed_too = [Unmeasured(release="2.6.0", reason=ATTACK, **place)]
    for prefix, one in {"": made(), "failed": dataclasses.replace(made(), unmeasured=failed_too)}.items():
        for path, content in files(one).items():
            target = top / "some" / "prefix" / prefix / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return top


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Silent, directory=folder)) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}/some/prefix/"
        httpd.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def addresses(folder: Path, server: str) -> dict[str, str]:
    """Return where the site begins, as files and from a web server under a prefix."""
    return {"file": (folder / "some" / "prefix").as_uri() + "/", "server": server}


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, addresses: dict[str, str]) -> Iterator[Open]:
    """Return what opens a page of the site; at its end nothing may have been said, asked for elsewhere, or run."""
    contexts = []
    faults: list[str] = []
    pages: list[Page] = []

    def look(route: Route, request: Request) -> None:
        if request.url.startswith(tuple(addresses.values())):
            route.continue_()
        else:
            faults.append(f"request: {request.url}")
            route.abort()

    def failed_to_load(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # What was still loading when another page was opened.
            faults.append(f"failed: {request.url}: {request.failure}")

    def answered(answer: Response) -> None:
        if not answer.ok:
            faults.append(f"{answer.status}: {answer.url}")

    def opened(path: str, address: str = "file", **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(10_000)
        context.route("**/*", look)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("requestfailed", failed_to_load)
        page.on("response", answered)
        page.goto(addresses[address] + path)
        pages.append(page)
        return page

    yield opened
    hacked = [page.url for page in pages if page.evaluate("'hacked' in window")]
    for context in contexts:
        context.close()
    assert (faults, hacked) == ([], [])
