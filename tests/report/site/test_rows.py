"""The page of a row: every cell has its place there, with all that is known of it, and nothing breaks out of it."""

from __future__ import annotations

import pytest
from made_up import canaries, failed, outcome, quirk, record, variant
from made_up_pages import ELSEWHERE, HOSTILE, Page, committed, entry, hostile_site, lost_links, site, words

from canishard.launch.outcome import Attempt, Outcome, RankEvidence, Status
from canishard.report.site import changes, method, quirk_pages, rows
from canishard.report.site.base import Site
from canishard.report.site.rows import pages, requirements

ID, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
PATH = "rows/fsdp2.gradients-reduce~default.html"
SUMMED = "summed instead of averaged"
NODRIVER = "CUDA build, no driver, Python 3.11"


def wrong(world_size: int = 2, **more: object) -> Outcome:
    mismatch: dict[str, str | int | float | list[str] | None] = {
        "label": "gradients",
        "got": "[2.0]",
        "wanted": "[1.0]",
        "max_abs_diff": 1.0,
        "differing": 18,
        "of": 18,
        "deviations": [SUMMED],
    }
    ranks = [
        RankEvidence(rank=rank, phase="teardown", stage="run", mismatches=[mismatch])
        for rank in range(world_size)
    ]
    attempts = [Attempt(status=Status.WRONG, start_method=way, ranks=ranks) for way in ("fork", "spawn")]
    fields = {"deviation": SUMMED, "message": "gradients: got [2.0], wanted [1.0]", "attempts": attempts}
    return outcome(ID, world_size, "wrong", **{**fields, **more})


def full() -> Site:
    return site(
        record(*canaries(), outcome(ID), outcome(ID, 4), outcome(MENDED), channel="2.9.1"),
        record(*canaries(), wrong(), wrong(4), outcome(MENDED)),
        record(*canaries(), wrong(), outcome(MENDED, 2, "missing"), channel="2.7.1"),
        catalogue={
            ID: entry(ID, params={"reduce": "default"}, rests_on=["canary.*", "gone.*"]),
            MENDED: entry(MENDED),
        },
        quirks=[
            quirk(title="It sums", mends="Call `f()`.", workaround=MENDED, links=["https://example.org/1"])
        ],
    )


def page(of: Site, path: str = PATH) -> Page:
    return Page(pages(of)[path])


def cells(found: Page, index: int = 0) -> list[list[str]]:
    body = found.all("tbody")[index]
    return [[words(cell) for cell in line] for line in body]


def test_a_page_for_every_row_measured_or_declared() -> None:
    assert set(pages(full())) == {PATH, "rows/fsdp2.gradients+force_sum.html", "rows/canary.all_reduce.html"}
    declared = pages(site(catalogue={"a.x": entry("a.x")}))
    assert "This row was not measured yet." in Page(declared["rows/a.x.html"]).text
    assert pages(site()) == {}


def test_the_history_has_every_cell_newest_first() -> None:
    assert [line[:4] for line in cells(page(full()))] == [
        ["2.9.1", "pass", "pass", NODRIVER],
        ["2.8.0", f"wrong {SUMMED}", f"wrong {SUMMED}", NODRIVER],
        ["2.7.1", f"wrong {SUMMED}", "unknown", NODRIVER],
    ]


def test_every_cell_has_its_anchor_once() -> None:
    found = page(full())
    names = {f"{release}-cuda-nodriver-{size}" for release in ("2.7.1", "2.8.0", "2.9.1") for size in (2, 4)}
    assert names <= set(found.ids)
    assert found.by_id("2.9.1-cuda-nodriver-2").tag == "td"
    assert found.by_id("2.8.0-cuda-nodriver-2").tag == "li"


def test_where_it_works_in_words() -> None:
    assert [words(item) for item in page(full()).all("ul", "spans")[0]] == [
        "yes since >2.8.0 <=2.9.1",
        f"no since <=2.7.1 until >=2.8.0 <2.9.1: wrong ({SUMMED})",
    ]


def test_the_quirk_where_this_row_shows_it_and_what_mends_it() -> None:
    found = page(full())
    (note,) = found.all("div", "note")
    assert words(note) == (
        "It sums On torch 2.7.1 to 2.8.0, gloo on cpu, linux x86_64. What to do: Call f(). Upstream: example.org/1"
    )
    assert "../quirks/sums.html" in found.links
    assert f"{MENDED}: pass on 2.8.0; missing on 2.7.1" in found.text
    other = page(full(), "rows/fsdp2.gradients+force_sum.html")
    assert "This row measures what mends It sums." in other.text


def test_a_workaround_of_the_same_check_needs_no_quirk() -> None:
    records = full().records
    found = {ID: entry(ID, params={"reduce": "default"}), MENDED: entry(MENDED)}
    assert f"{MENDED}: pass on 2.8.0" in page(site(*records, catalogue=found)).text
    found[MENDED] = entry(MENDED, params={"reduce": "other"})
    assert MENDED not in page(site(*records, catalogue=found)).text


def test_what_it_rests_on() -> None:
    found = page(full())
    assert "It rests on canary.all_reduce, gone.*: where one of these" in found.text
    assert "../rows/canary.all_reduce.html" in found.links


def test_how_to_see_it_again() -> None:
    found = page(full())
    assert "../reproduce/fsdp2.function.py" in found.links
    assert (
        f"python -m pip install torch==2.8.0 numpy==2.3.0 python fsdp2.function.py --row '{ID}' --ranks 2 "
        f"torchrun --nproc-per-node 2 fsdp2.function.py --row '{ID}' "
        f"Where canishard is installed, canishard reproduce '{ID}' writes the same."
    ) in found.text
    assert (
        f"the last line is observed: pass Observed, gloo on cpu, linux x86_64 pass on 2.9.1 wrong ({SUMMED}) on 2.7.1 to 2.8.0"
        in found.text
    )
    assert "def function(context: Context)" in found.text


def test_a_row_whose_check_is_gone_has_no_script() -> None:
    found = page(site(*full().records))
    assert not [link for link in found.links if "reproduce" in link]
    assert "See it yourself" not in found.text


# ---- evidence ------------------------------------------------------------------------------------


def cards(*records: Outcome) -> list[str]:
    of = site(record(*records))
    return [words(card) for card in page(of, "rows/a.x.html").all("section", "evidence")]


def test_equal_evidence_is_said_once_for_all_its_cells() -> None:
    first, second = page(full()).all("section", "evidence")
    assert [item.get("id") for item in first.iter("li")] == ["2.8.0-cuda-nodriver-2", "2.7.1-cuda-nodriver-2"]
    assert [item.get("id") for item in second.iter("li")] == ["2.8.0-cuda-nodriver-4"]
    assert words(first).startswith(
        f"wrong {SUMMED} torch 2.8.0, 2 ranks: {NODRIVER} torch 2.8.0+cu128 (a1b2c3), CUDA 12.8, NCCL 2.27.3, "
        "Python 3.11.9, glibc 2.36, numpy 2.3.0; measured 2026-01-31 by canishard 0.1.0 (c0ffee);"
    )
    assert f"gradients ranks 0, 1 got [2.0] wanted [1.0] 1 18 of 18 {SUMMED}" in words(first)
    assert "Attempt 1, 2 (fork, spawn), wrong: ranks" in words(first)


def test_an_error() -> None:
    (card,) = cards(failed("a.x", message="RuntimeError: no", text="Trace\nback"))
    assert "RuntimeError: no" in card
    assert "Attempt 1, 2 (fork), error: ranks, traceback, end of what was printed" in card
    assert (
        "0 report code 0 RuntimeError: no Traceback, rank 0 Trace back End of what was printed, rank 0 said"
        in card
    )


def test_a_hang_has_the_stacks_and_the_states() -> None:
    ranks = [
        RankEvidence(
            rank=rank,
            phase="body",
            exit="killed by the watchdog",
            state="S (sleeping)",
            stacks="Current thread",
        )
        for rank in (0, 1)
    ]
    attempt = Attempt(
        status=Status.HANG, start_method="spawn", message="no report", first_failing_rank=0, ranks=ranks
    )
    (card,) = cards(outcome("a.x", 2, "hang", message="no report", attempts=[attempt]))
    assert "1 body killed by the watchdog S (sleeping)" in card
    assert "Failed first: rank 0." in card
    assert "Stacks at the deadline, ranks 0, 1 Current thread" in card


def test_attempts_that_disagree_are_told_apart() -> None:
    error = Attempt(
        status=Status.ERROR, start_method="fork", message="E: 1", ranks=[RankEvidence(rank=0, phase="body")]
    )
    attempts = [error, Attempt(status=Status.PASS, start_method="fork"), error]
    (card,) = cards(outcome("a.x", 2, "flaky", message="2 error, 1 pass; E: 1", attempts=attempts))
    assert "2 error, 1 pass; E: 1 E: 1 Attempt 1, 3 (fork), error: ranks" in card
    assert "Attempt 2 (fork), pass." in card


def test_stages_are_named_where_there_are_several() -> None:
    ranks = [
        RankEvidence(rank=0, phase="released", stage="save"),
        RankEvidence(rank=0, phase="body", stage="load", output="x"),
    ]
    attempt = Attempt(status=Status.ERROR, start_method="fork", ranks=ranks)
    (card,) = cards(outcome("a.x", 2, "error", message="m", attempts=[attempt]))
    assert "0 save released code 0 0 load body code 0" in card
    assert "End of what was printed, rank 0 in load x" in card


def test_a_pass_with_something_to_say_comes_last() -> None:
    found = cards(
        outcome("a.x", names=["torch._old"], notes=["a note"], measurements={"ratio": 0.5, "none": None}),
        outcome("a.x", 4, "missing", message="gone"),
    )
    assert found[0].startswith("missing torch 2.8.0, 4 ranks")
    assert found[1].endswith("none ratio 0.5 Found under an older name: torch._old Note: a note")


def test_what_to_install() -> None:
    assert requirements(None) == "torch"
    nightly = record(wrong(), channel="nightly", variant=variant("2.16.0.dev20260101+cpu", packages={}))
    assert (
        "pip install torch==2.16.0.dev20260101+cpu python"
        in page(site(nightly, catalogue={ID: entry(ID)})).text
    )


# ---- all of them ---------------------------------------------------------------------------------


def test_hostile_text_stays_text() -> None:
    made = pages(hostile_site())
    assert set(made) == {"rows/a.x.html", "rows/b.x.html"}
    for content in made.values():
        found = Page(content)
        assert [script.get("src") for script in found.all("script")] == ["../static/site.js"]
        assert words(found.all("main")[0]).count('<script>alert("1")</script>&amp;') > 3
    assert HOSTILE.encode() not in b"".join(made.values())


def test_the_same_bytes_from_records_in_any_order() -> None:
    of = full()
    turned = site(*reversed(of.records), catalogue=of.catalogue, quirks=of.quirks)
    assert pages(turned) == pages(of)


def test_every_link_between_these_pages_leads_somewhere() -> None:
    of = full()
    made = pages(of) | quirk_pages.pages(of) | changes.pages(of) | method.pages(of)
    assert lost_links(made, ELSEWHERE) == []


@pytest.fixture(scope="module")
def real() -> dict[str, bytes]:
    return rows.pages(committed())


@pytest.mark.parametrize(
    "path", [PATH, "rows/pp.gpipe.html", "rows/dcp.resume.html", "rows/canary.all_reduce.html"]
)
def test_committed_records(real: dict[str, bytes], path: str) -> None:
    found = Page(real[path])
    assert found.all("table", "history")
    assert len(real[path]) < 100_000


def test_the_committed_records_say_what_happens_on_2_8(real: dict[str, bytes]) -> None:
    found = Page(real[PATH])
    assert words(found.by_id("2.8.0-cuda-nodriver-2")).startswith("torch 2.8.0, 2 ranks")
    assert f"{MENDED}: pass on 2.8.0" in found.text
    assert "set_force_sum_reduction_for_comms(True)" in found.text
