"""The page of claims: where the documentation and the cells disagree, both ways, and what nothing measures."""

from __future__ import annotations

from typing import Any

from made_up import outcome, record
from made_up_pages import ELSEWHERE, HOSTILE, Page, committed, lost_links, site, words

from canishard.facts.claims import Claim, Finding, Stated
from canishard.report.site import rows
from canishard.report.site.base import Site
from canishard.report.site.claims_page import pages

AVG, MAX, SUM = (f"collectives.all_reduce[op={op}]" for op in ("avg", "max", "sum"))


def claim(name: str, **more: Any) -> Claim:
    fields: dict[str, Any] = {
        "name": name,
        "says": f"It says {name}.",
        "page": "https://example.org/{minor}/a.html",
        "releases": ">=2.7,<2.10",
        "on": ["gloo/*"],
        "claims": Stated.UNSUPPORTED,
        "cases": [AVG],
    }
    return Claim(**{**fields, **more})


def full(*claims: Claim) -> Site:
    return site(
        record(outcome(AVG), outcome(MAX), outcome(SUM), outcome(SUM, 4, "error"), channel="2.9.1"),
        record(outcome(AVG, 2, "wrong", deviation="sum instead of avg"), outcome(MAX), outcome(SUM)),
        record(outcome(AVG, 2, "unsupported"), outcome(MAX), outcome(SUM), channel="2.7.1"),
        claims=claims,
    )


def page(of: Site) -> Page:
    return Page(pages(of)["claims.html"])


def heads(found: Page) -> list[str]:
    return [words(head) for head in found.all("h2")]


def table(found: Page, index: int = 0) -> list[list[str]]:
    return [[words(cell) for cell in line] for line in found.all("table", "findings")[index].iter("tr")]


def test_disagreements_come_first_both_ways() -> None:
    found = page(
        full(
            claim("agrees", cases=[MAX], claims=Stated.WORKS),
            claim("silent", releases="==2.8.*"),
            claim("supported"),
            claim("broken", cases=[SUM], claims=Stated.WORKS),
            claim("nothing", cases=[]),
            claim("elsewhere", on=["nccl/cuda"]),
        )
    )
    assert heads(found) == [
        "Said to work, and does not",
        "Said not to be supported, and works",
        "Said not to be supported: no error, but a wrong value",
        "Agree",
        "No check measures it",
        "About backends, devices and releases of which there is no record",
    ]
    assert [words(head) for head in found.all("h3")] == [
        "It says broken.",
        "It says supported.",
        "It says silent.",
        "It says agrees.",
    ]
    assert "gloo on cpu: It says nothing. (2.7.1 to 2.9.1, documentation of 2.9)" in found.text
    assert found.text.endswith("nccl/cuda It says elsewhere. >=2.7,<2.10 documentation of 2.9")
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)


def test_what_was_measured_of_a_claim() -> None:
    found = page(full(claim("supported")))
    assert "Said for 2.7.1 to 2.9.1 (documentation of 2.9). Measured on gloo on cpu:" in found.text
    assert table(found) == [
        ["torch", "measured", "the page", "rows"],
        ["2.9.1", "pass", "is contradicted", AVG],
        ["2.8.0", "wrong sum instead of avg", "silently wrong", AVG],
        ["2.7.1", "unsupported", "agrees", AVG],
    ]
    assert "https://example.org/2.9/a.html" in found.links
    assert "rows/collectives.all_reduce-op~avg.html#2.8.0-cuda-nodriver-2" in found.links


def test_every_finding_has_its_place() -> None:
    found = page(full(claim("supported")))
    shown = {row.get("class") for row in found.all("tr") if row.get("class")}
    assert shown == {finding.name.lower() for finding in Finding} - {"not_measured"}


def test_a_function_is_one_story_over_the_tables_of_several_pages() -> None:
    found = page(
        full(
            claim("old", function="all_reduce", releases="<2.8", says="all_reduce is not available."),
            claim(
                "new",
                function="all_reduce",
                releases=">=2.8",
                says="all_reduce is available.",
                claims=Stated.WORKS,
            ),
        )
    )
    (story,) = found.all("article")
    assert words(story).startswith(
        "The table of backends: all_reduce Said for 2.7.1: all_reduce is not available. (documentation of 2.7) "
        "Said for 2.8.0 to 2.9.1: all_reduce is available. (documentation of 2.9) Measured on gloo on cpu:"
    )
    assert heads(found) == ["Said to work, and does not"]


def test_functions_of_a_table_that_nothing_measured_share_a_line() -> None:
    cells = [
        claim(f"t-{name}", function=name, on=["nccl/cpu"], claims=stated)
        for name, stated in (
            ("send", Stated.UNSUPPORTED),
            ("recv", Stated.UNSUPPORTED),
            ("gather", Stated.WORKS),
        )
    ]
    found = page(full(*cells))
    assert "No claim is about anything that was measured." in found.text
    assert [words(line) for line in found.all("tbody")[0]] == [
        "nccl/cpu not available: send, recv >=2.7,<2.10 documentation of 2.9",
        "nccl/cpu available: gather >=2.7,<2.10 documentation of 2.9",
    ]


def test_a_claim_about_no_known_release_has_no_link() -> None:
    found = page(full(claim("old", releases="<2")))
    assert not [link for link in found.links if "example.org" in link]
    assert found.text.endswith("gloo/* It says old. <2 of no known release")


def test_many_rows_and_deviations_are_folded() -> None:
    cells = [
        outcome(f"collectives.reduce[op={n}]", 2, "wrong", deviation=f"sum instead of {n}") for n in range(9)
    ]
    found = page(site(record(*cells), claims=[claim("c", cases=["collectives.*"], claims=Stated.WORKS)]))
    line = table(found)[1]
    assert line[1] == "wrong sum instead of 0, sum instead of 1, sum instead of 2, and 6 more"
    assert line[3].startswith("9 rows collectives.reduce[op=0], ")


def test_hostile_text_stays_text() -> None:
    cells = outcome(AVG, 2, "wrong", deviation=HOSTILE)
    of = site(
        record(cells, backend=HOSTILE),
        claims=[claim("a", says=HOSTILE, on=["*/*"]), claim("b", says=HOSTILE)],
    )
    content = pages(of)["claims.html"]
    assert HOSTILE.encode() not in content
    assert [script.get("src") for script in Page(content).all("script")] == ["static/site.js"]


def test_every_link_to_a_row_leads_to_its_cell() -> None:
    of = full(claim("supported"), claim("broken", cases=[SUM], claims=Stated.WORKS))
    assert (
        lost_links(pages(of) | rows.pages(of), f"{ELSEWHERE}|(changes|compare|method).html|quirks/.*") == []
    )


def test_committed_records() -> None:
    found = page(committed())
    assert heads(found)[0] == "Said to work, and does not"
    assert "summed instead of averaged" in found.text


def test_no_claims() -> None:
    assert heads(page(full())) == []
