"""A made-up site for tests of its pages, and pages read strictly: what a browser would mend is an error."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import html5lib
from made_up import failed, outcome, record

from canishard import catalogue, releases
from canishard import record as record_files
from canishard.catalogue import Entry
from canishard.facts import claims, quirks, support
from canishard.launch.outcome import Attempt, Outcome, RankEvidence, Status
from canishard.record import Record
from canishard.report.site.base import Site

RELEASES = ("2.7.1", "2.8.0", "2.9.0", "2.9.1")
HOSTILE = '</pre></code><script>alert("1")</script>&amp;'


def entry(case_id: str, **more: Any) -> Entry:
    family, _, subject = case_id.partition(".")
    fields: dict[str, Any] = {
        "id": case_id,
        "family": family,
        "subject": re.split(r"[\[+]", subject)[0],
        "workaround": case_id.partition("+")[2],
        "feature": "feature",
        "title": "It is right",
        "module": f"canishard.checks.{family}",
        "function": "function",
        "params": {},
        "world_sizes": [2, 4],
        "rests_on": [],
        "needs": [],
        "packages": [],
        "source": "@check()\ndef function(context: Context) -> None:\n    pass\n",
    }
    return Entry(**{**fields, **more})


def site(*records: Record, **more: Any) -> Site:
    fields: dict[str, Any] = {
        "records": list(records),
        "releases": [releases.Release(version=version) for version in RELEASES],
        "quirks": [],
        "catalogue": {},
        "claims": [],
        "supports": support.support(records, RELEASES),
    }
    return Site(**{**fields, **more})


def committed() -> Site:
    """Return the site of the committed records."""
    known = releases.load()
    records = record_files.load_all(Path(__file__).parent.parent / "matrix" / "results")
    return Site(
        records=records,
        releases=known,
        quirks=quirks.load(),
        catalogue=catalogue.load(),
        claims=claims.load(),
        supports=support.support(records, [release.version for release in known]),
    )


def hostile(case_id: str) -> Outcome:
    """Return an outcome all of whose texts try to leave their place."""
    text = HOSTILE
    rank = RankEvidence(
        rank=0,
        phase=text,
        exit=text,
        state=text,
        stage=text,
        error=text,
        traceback=text,
        stacks=text,
        output=text,
        mismatches=[{"label": text, "got": text, "wanted": text, "deviations": [text]}],
    )
    attempt = Attempt(status=Status.ERROR, start_method=text, message=f"{text}!", ranks=[rank])
    more = {
        "deviation": text,
        "message": text,
        "names": [text],
        "notes": [text],
        "measurements": {text: text},
    }
    return outcome(case_id, 2, Status.WRONG, attempts=[attempt], **more)


def hostile_site() -> Site:
    """Return a site in which every text that is data tries to leave its place."""
    case_id = "a.x"
    more: dict[str, Any] = {"feature": HOSTILE, "title": HOSTILE, "source": HOSTILE, "rests_on": [HOSTILE]}
    return site(
        record(hostile(case_id), failed("b.x", message=HOSTILE), channel="2.9.1", backend=HOSTILE),
        record(outcome(case_id), channel="2.8.0", backend=HOSTILE, start_method=HOSTILE, ended=HOSTILE),
        catalogue={case_id: entry(case_id, **more)},
    )


class Page:
    """A page, read strictly."""

    def __init__(self, content: bytes) -> None:
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.root = parser.parse(content.decode())
        self.elements = list(self.root.iter())
        self.ids = [element.get("id") for element in self.elements if element.get("id")]
        assert len(self.ids) == len(set(self.ids)), "an id is there twice"
        self.links = [
            element.get("href") or element.get("src")
            for element in self.elements
            if element.get("href") or element.get("src")
        ]

    @property
    def text(self) -> str:
        """Return all text below <main>, with single blanks."""
        return words(next(element for element in self.elements if element.tag == "main"))

    def all(self, tag: str, class_name: str = "") -> list[Any]:
        """Return the elements of a kind, in order."""
        return [
            element
            for element in self.elements
            if element.tag == tag and (not class_name or class_name in element.get("class", "").split())
        ]

    def by_id(self, name: str) -> Any:
        """Return the element of an id."""
        return next(element for element in self.elements if element.get("id") == name)


INLINE = frozenset({"a", "abbr", "b", "code", "em", "small", "span", "strong", "time"})


def words(element: Any) -> str:
    """Return an element's text as it is read: a blank between blocks and cells, single blanks elsewhere."""
    return " ".join("".join(_pieces(element)).split())


def _pieces(element: Any) -> Iterator[str]:
    apart = "" if element.tag in INLINE else " "
    yield apart + (element.text or "")
    for child in element:
        yield from _pieces(child)
        yield child.tail or ""
    yield apart


def lost_links(files: Mapping[str, bytes], elsewhere: str) -> list[str]:
    """Return the links inside some pages that lead nowhere; ``elsewhere`` matches paths that others write."""
    pages = {path: Page(content) for path, content in files.items() if path.endswith(".html")}
    lost = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"https?://", link):
                continue
            target, _, anchor = link.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            if re.fullmatch(elsewhere, there):
                continue
            if there not in files or (anchor and there in pages and anchor not in pages[there].ids):
                lost.append(f"{path}: {link}")
    return lost


ELSEWHERE = r"(index|claims)\.html|(static|table|reproduce)/.*|canishard\.(json|csv)"
"""Paths that other modules of the site write."""
