"""The page of the method: every status has its place, and every build that was measured its exact description."""

from __future__ import annotations

from made_up import outcome, record, variant
from made_up_pages import HOSTILE, Page, committed, site, words

from canishard.launch.outcome import Status
from canishard.report.site.method import DECIDED, pages


def test_every_status_has_an_anchor_and_a_text() -> None:
    found = Page(pages(site())["method.html"])
    assert {*DECIDED} == {*Status}
    assert {f"status-{status.value}" for status in Status} <= set(found.ids)
    assert [words(head) for head in found.all("dl", "statuses")[0].iter("dt")] == [
        status.value.replace("_", " ") for status in DECIDED
    ]
    assert found.text.endswith("What was measured, exactly Nothing yet.")


def test_every_link_on_the_page_leads_somewhere() -> None:
    found = Page(pages(site())["method.html"])
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)


def test_the_exact_build() -> None:
    found = Page(pages(site(record(outcome("a.x"))))["method.html"])
    exact = found.by_id("build-torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64")
    assert words(exact) == (
        "torch 2.8.0+cu128 its git version a1b2c3 CUDA 12.8 NCCL 2.27.3 Python 3.11.9 glibc 2.36 packages numpy 2.3.0 "
        "variables OMP_NUM_THREADS=1 ranks started by fork measured 2026-01-31T12:00:00Z to 2026-01-31T12:00:30Z "
        "canishard 0.1.0 (c0ffee)"
    )


def test_a_build_without_anything() -> None:
    bare = variant("2.8.0", git_version="", cuda=None, hip="6.2", nccl=None, glibc="", packages={})
    found = Page(pages(site(record(variant=bare, variables={})))["method.html"])
    exact = found.by_id("build-torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64")
    assert words(exact).startswith(
        "torch 2.8.0 its git version not known CUDA none HIP 6.2 NCCL none Python 3.11.9 glibc none packages none "
        "variables none ranks"
    )


def test_hostile_text_stays_text() -> None:
    of = site(record(variant=variant(HOSTILE, packages={HOSTILE: HOSTILE}), variables={HOSTILE: HOSTILE}))
    content = pages(of)["method.html"]
    assert HOSTILE.encode() not in content
    assert len(Page(content).all("script")) == 1


def test_committed_records() -> None:
    of = committed()
    assert len(Page(pages(of)["method.html"]).all("details")) == len(of.records)
