"""What all pages share, and the whole site: valid, linked within itself, the same for the same records."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from typing import Any

import jinja2
import msgspec
import pytest
from made_up import environment, failed, outcome, quirk, record
from made_up_pages import HOSTILE, Page, committed, hostile, hostile_site, lost_links, site

from canishard import catalogue
from canishard.catalogue import Entry
from canishard.catalogue.ids import slug
from canishard.launch.outcome import Status
from canishard.report import reproduce
from canishard.report.site import base, files
from canishard.report.site.base import FOLDER, Site, cell_anchor, cell_link, render, short_link

ID, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
OUTSIDE = r"canishard\.(json|csv)"
"""The data set, which `report` puts beside the pages."""

CSS = (FOLDER / "static" / "site.css").read_text(encoding="utf-8")


def small() -> Site:
    """Return a site with something of everything: builds that differ, patches, two backends, a quirk, hostile text."""
    script = "../'\"><script>alert(1)</script>"
    return site(
        record(
            outcome(ID), outcome(ID, 4), outcome(MENDED), failed("pp.x", 4, message=script), channel="2.9.1"
        ),
        record(outcome(ID, status="wrong", deviation=script), hostile("tp.y")),
        record(outcome(ID, status="not_run"), outcome(MENDED, status="flaky"), flavour="cpu"),
        record(outcome(ID, status="missing"), channel="2.7.1"),
        record(outcome(ID, status="crash"), channel="2.7.0"),
        record(outcome(ID), backend="nccl", device="cuda", flavour="cuda", machine="aarch64"),
        quirks=[
            quirk(title=script, mends="Call `f`", workaround=MENDED, links=["javascript:alert(1)", script]),
            quirk(name="loud", cases=["pp.*"], shows=[Status.ERROR], links=["https://example.org/a?b=1&c=2"]),
        ],
        catalogue={row_id: real(row_id) for row_id in (ID, MENDED, "fsdp2.never_measured")},
    )


def real(row_id: str, **more: Any) -> Entry:
    """Return an entry whose check there is, since its script is made from the source."""
    return msgspec.structs.replace(catalogue.load()[ID], id=row_id, **more)


def scripted(of: Site) -> Site:
    """Return a site whose entries say the same and have a check."""
    entries = {
        row_id: real(row_id, title=one.title, feature=one.feature) for row_id, one in of.catalogue.items()
    }
    return dataclasses.replace(of, catalogue=entries)


def attacked() -> Site:
    return scripted(hostile_site())


def lost(found: dict[str, bytes]) -> list[str]:
    """Return the links that lead nowhere; a ``#`` with ``=`` after it is a script's state and no anchor."""
    return [link for link in lost_links(found, OUTSIDE) if "=" not in link.rpartition("#")[2]]


# ---- names and links -----------------------------------------------------------------------------


def test_slugs_need_no_escape_and_differ() -> None:
    ids = [
        *(ID, MENDED, "a.b", "a.b[c=d]", "a.b[c=d]+e", "a.b[c=d,e=f]", "a.b[c=d-e]", "a.b[c=d/e]"),
        *("a.b-c", "a.b~c", 'a.b"c', "a.b[c=2d]", "a.b[c=ä]"),
    ]
    slugs = [slug(row_id) for row_id in ids]
    assert slugs[:2] == ["fsdp2.gradients-reduce~default", "fsdp2.gradients+force_sum"]
    assert len(set(slugs)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9._+~-]+", name) for name in slugs)


def test_a_cells_anchor_leaves_out_what_is_usual_and_no_more() -> None:
    assert cell_anchor(environment(), 2) == "2.8.0-cuda-nodriver-2"
    assert cell_link(environment(), ID, 4) == f"rows/{slug(ID)}.html#2.8.0-cuda-nodriver-4"
    fields: dict[str, tuple[str, ...]] = {
        "channel": ("2.8.0", "nightly"),
        "flavour": ("cpu", "cuda"),
        "backend": ("gloo", "cpu:gloo,cuda:nccl"),
        "device": ("cpu", "cuda"),
        "python": ("3.11", "3.12"),
        "system": ("linux", "gloo"),
        "machine": ("x86_64", "cpu"),
    }
    every = [dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())]
    anchors = {cell_anchor(environment(**one), size) for one in every for size in (2, 4)}
    assert len(anchors) == 2 * len(every)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://github.com/pytorch/pytorch/issues/162338", "pytorch/pytorch#162338"),
        ("https://github.com/pytorch/pytorch/pull/145935", "pytorch/pytorch#145935"),
        ("https://github.com/pytorch/pytorch/pull/1/files", "github.com/pytorch/pytorch/pull/1/files"),
        ("javascript:alert(1)", "javascript:alert(1)"),
    ],
)
def test_short_links(url: str, wanted: str) -> None:
    assert short_link(url) == wanted


def test_what_a_template_lacks_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'heads' is undefined"):
        render("table.html", "table/x.html", site=site(), title="", group=None, families=[], statuses=[])


def test_the_navigation_leads_to_the_table_with_most_releases() -> None:
    one, two = record(outcome(ID, 4), outcome(ID, 2)), record(outcome(ID), channel="2.9.1")
    assert site(one, two, record(outcome(ID), backend="fake")).table == "table/gloo-cpu-2.html"
    assert site().table == ""


# ---- the whole site ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["made up", "committed", "hostile", "empty"])
def found(request: pytest.FixtureRequest) -> dict[str, bytes]:
    made: dict[str, Any] = {"made up": small, "committed": committed, "hostile": attacked, "empty": site}
    return files(made[request.param]())


@pytest.fixture(scope="module")
def parsed(found: dict[str, bytes]) -> dict[str, Page]:
    return {path: Page(content) for path, content in found.items() if path.endswith(".html")}


def test_every_page_is_valid_and_every_link_leads_somewhere(found: dict[str, bytes]) -> None:
    assert {"index.html", "static/site.css", "search.js"} <= set(found)
    assert lost(found) == []


def test_every_page_has_the_frame(parsed: dict[str, Page]) -> None:
    for path, page in parsed.items():
        assert len(page.all("h1")) == 1, path
        assert [element.get("id") for element in page.all("main")] == ["main"], path
        static = f"{'../' * path.count('/')}static"
        assert page.links[:3] == [f"{static}/{name}" for name in ("icon.svg", "site.css", "site.js")], path
        assert page.all("html")[0].get("lang") == "en", path


def test_nothing_is_loaded_from_elsewhere_and_no_script_stands_in_a_page(parsed: dict[str, Page]) -> None:
    for path, page in parsed.items():
        for element in page.elements:
            names = {name.lower() for name in element.attrib}
            assert not any(name.startswith("on") or name == "style" for name in names), path
            address = element.get("src") or element.get("href") or ""
            allowed = r"(?!\w+:|//)|https?://" if element.tag == "a" else r"(?!\w+:|//)"
            assert re.match(allowed, address), f"{path}: {address}"
            assert element.tag != "script" or (address and not element.text), path


def test_hostile_text_is_shown_and_is_no_markup() -> None:
    pages = files(attacked())
    row = Page(pages[f"rows/{slug('a.x')}.html"])
    assert " ".join(HOSTILE.split()) in row.text
    assert (
        b"alert(" not in pages["index.html"].replace(b"&#34;", b'"')
        or b"<script>alert" not in pages["index.html"]
    )


def test_the_order_of_records_changes_nothing() -> None:
    one = small()
    other = dataclasses.replace(one, records=list(reversed(one.records)))
    assert files(one) == files(other)


def test_every_row_of_the_catalogue_has_a_script_that_says_what_was_observed_where() -> None:
    made = small()
    scripts = {path: content for path, content in files(made).items() if path.startswith("reproduce/")}
    assert set(scripts) == {f"reproduce/{reproduce.name(entry)}" for entry in made.catalogue.values()}
    assert len(scripts) < len(made.catalogue)
    head = ast.get_docstring(ast.parse(scripts[f"reproduce/{reproduce.name(made.catalogue[ID])}"])) or ""
    assert "crash with 2 ranks: 2.7.0 (gloo on cpu, linux x86_64)" in head
    assert "pass with 2 ranks: 2.9.1 (gloo on cpu, linux x86_64), 2.8.0 (nccl on cuda, linux aarch64)" in head
    assert "not_run with 2 ranks: 2.8.0 cpu (gloo on cpu, linux x86_64)" in head


# ---- static files --------------------------------------------------------------------------------


def test_each_status_has_a_symbol_of_its_own_that_is_not_read_out() -> None:
    symbols = [
        re.search(rf'\.s-{status.value}::before {{ content: "(.)"; content: "\1" / ""; }}', CSS)
        for status in Status
    ]
    assert None not in symbols
    assert len({match[1] for match in symbols if match}) == len(Status)


def _variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#\w+);", css))


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


LIGHT, DARK = (_variables(part) for part in CSS.partition("@media (prefers-color-scheme: dark)")[::2])
PAIRS = [
    *(
        (f"{name}-text", name)
        for name in ("pass", "wrong", "error", "refused", "missing", "crash", "hang", "flaky")
    ),
    *((text, ground) for text in ("text", "muted", "link") for ground in ("page", "soft")),
    *(("text", f"bad-{number}") for number in (1, 2, 3)),
    ("text", "mark"),
    ("page", "accent"),
]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(colours: dict[str, str]) -> None:
    def contrast(one: str, other: str) -> float:
        light, dark = sorted((_luminance(colours[one]), _luminance(colours[other])), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    weak = {f"{text} on {ground}": contrast(text, ground) for text, ground in PAIRS}
    assert {pair: round(ratio, 2) for pair, ratio in weak.items() if ratio < 4.5} == {}


def test_scripts_and_styles_fetch_nothing() -> None:
    for path in base.FOLDER.joinpath("static").iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?:|//\w+\.\w|fetch\(|XMLHttpRequest|import\(|@import|eval\(|innerHTML", text
        ), path
