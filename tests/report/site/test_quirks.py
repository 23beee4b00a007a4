"""The pages of quirks: where each shows, how, and what was measured to mend it."""

from __future__ import annotations

from made_up import failed, outcome, quirk, record
from made_up_pages import ELSEWHERE, HOSTILE, Page, committed, entry, lost_links, site, words

from canishard.launch.outcome import Status
from canishard.report.site import method, rows
from canishard.report.site.base import Site
from canishard.report.site.quirk_pages import pages

ID, MENDED, OTHER = (
    "fsdp2.gradients[reduce=default]",
    "fsdp2.gradients+force_sum",
    "fsdp2.gradients[reduce=sum]",
)
PATH = "quirks/sums.html"


def full() -> Site:
    return site(
        record(outcome(ID), outcome(ID, 4), outcome(MENDED), outcome(OTHER), channel="2.9.1"),
        record(
            outcome(ID, 2, "wrong"),
            outcome(ID, 4, "hang"),
            outcome(MENDED),
            outcome(MENDED, 4, "hang"),
            channel="2.9.0",
        ),
        record(outcome(ID, 2, "wrong"), outcome(MENDED)),
        record(outcome(ID), flavour="cpu"),
        record(outcome(ID, 2, "wrong"), channel="2.7.1"),
        record(outcome(ID), backend="mpi"),
        record(outcome("canary.all_reduce"), backend="ucc"),
        quirks=[
            quirk(
                name="loud",
                title="It is refused",
                cases=["pp.*"],
                shows=[Status.UNSUPPORTED, Status.ERROR],
            ),
            quirk(
                what="Wrong `here`.", mends="Do `f()`.", workaround=MENDED, links=["https://example.org/1"]
            ),
        ],
        catalogue={ID: entry(ID), MENDED: entry(MENDED)},
    )


def page(of: Site, path: str = PATH) -> Page:
    return Page(pages(of)[path])


def test_the_list_has_silent_ones_first() -> None:
    found = page(full(), "quirks/index.html")
    assert [words(card) for card in found.all("section", "card")] == [
        "It sums wrong gloo on cpu: 2.7.1 to 2.9.0, not on 2.9.1 mpi on cpu: on no measured release Do f().",
        "It is refused unsupported error Not measured yet.",
    ]
    assert "sums.html" in found.links
    assert "None is named yet." in page(site(), "quirks/index.html").text


def test_what_happens_where_and_what_mends_it() -> None:
    found = page(full())
    assert [words(part) for part in found.all("dl", "facts")] == [
        "gloo on cpu torch 2.7.1 to 2.9.0 (where builds differ: CUDA build, no driver) Not there 2.9.1",
        "mpi on cpu on no measured release",
    ]
    assert "Wrong here." in found.text
    assert (
        "What to do Do f(). Measured by fsdp2.gradients+force_sum, on the releases that show the quirk:"
        in found.text
    )
    assert [words(item) for item in found.all("li")] == [
        "gloo on cpu: pass on 2.8.0",
        "gloo on cpu: unknown on 2.7.1",
        "gloo on cpu: hang pass on 2.9.0",
        f"fsdp2.function.py: python fsdp2.function.py --row '{ID}' --ranks 2",
        "example.org/1",
    ]


def test_its_rows_beside_the_releases() -> None:
    found = page(full())
    gloo = found.all("table")[0]
    assert [[words(cell) for cell in line] for line in gloo.iter("tr")] == [
        ["row", "2.9.1", "2.9.0", "2.8.0", "2.7.1"],
        [
            ID,
            "pass",
            "wrong 2 ranks hang 4 ranks",
            "pass cpu 2 ranks unknown cpu 4 ranks; nodrv 4 ranks wrong nodrv 2 ranks",
            "wrong 2 ranks unknown 4 ranks",
        ],
    ]
    shown = [words(mark) for mark in found.all("span", "shows")]
    assert shown == ["wrong 2 ranks", "wrong nodrv 2 ranks", "wrong 2 ranks"]
    assert "../rows/fsdp2.gradients-reduce~default.html#2.8.0-cuda-nodriver-2" in found.links
    assert f"Looked at too, and not shown: {OTHER}" in found.text
    assert "mpi on cpu, linux x86_64 No row shows it here." in found.text


def test_a_quirk_that_nothing_was_measured_of() -> None:
    found = page(full(), "quirks/loud.html")
    assert "Nothing that can show it was measured yet." in found.text
    assert "Nothing is known that mends it on the releases that show it." in found.text
    assert "No row that can show it was measured." in found.text


def test_a_workaround_that_no_check_has_is_named_without_a_link() -> None:
    found = page(site(record(outcome(ID, 2, "wrong")), quirks=[quirk(workaround="fsdp2.gone")]))
    assert (
        "Measured by fsdp2.gone, on the releases that show the quirk: gloo on cpu: unknown on 2.8.0"
        in found.text
    )
    assert not [link for link in found.links if "gone" in link]


def test_hostile_text_stays_text() -> None:
    texts = {"title": HOSTILE, "what": HOSTILE, "mends": HOSTILE, "links": [HOSTILE, "javascript:alert(1)"]}
    made = pages(site(record(failed(ID), backend=HOSTILE), quirks=[quirk(shows=[Status.ERROR], **texts)]))
    assert HOSTILE.encode() not in b"".join(made.values())
    for content in made.values():
        found = Page(content)
        assert [script.get("src") for script in found.all("script")] == ["../static/site.js"]
        assert not [link for link in found.links if link.startswith("javascript")]


def test_every_link_between_these_pages_leads_somewhere() -> None:
    of = full()
    made = pages(of) | rows.pages(of) | method.pages(of)
    assert lost_links(made, f"{ELSEWHERE}|(changes|compare).html") == []


def test_the_same_bytes_from_records_in_any_order() -> None:
    of = full()
    assert pages(site(*reversed(of.records), catalogue=of.catalogue, quirks=of.quirks)) == pages(of)


def test_committed_records() -> None:
    made = pages(committed())
    found = Page(made["quirks/fsdp2-gradients-summed.html"])
    assert words(found.all("dl", "facts")[0]).startswith("gloo on cpu torch 2.7.1 to 2.8.0 Not there")
    assert "gloo on cpu: pass on 2.8.0" in found.text
    assert len(Page(made["quirks/index.html"]).all("section", "card")) == len(committed().quirks)
