"""What the command line prints of the data set."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from answers.test_dataset import CATALOGUE, MENDED, ROW
from made_up import failed, outcome, quirk, record

from canishard.answers import dataset, needs, published
from canishard.answers.dataset import Dataset
from canishard.record import Record
from canishard.report import formats, terminal
from canishard.report.table import MEANINGS, SYMBOLS

HOSTILE = "RuntimeError: <script>alert(1)</script> | \x1b[31mred\x1b[0m \u202e `code`\r$x$"
KNOWN = ["2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.9.1"]


def made_up(**more: Any) -> Dataset:
    wrong = [outcome(ROW, size, "wrong", deviation="summed") for size in (2, 4)]
    records = [
        record(failed(ROW, message=HOSTILE), outcome(MENDED, 2, "missing"), channel="2.6.0"),
        record(*wrong, outcome(MENDED, 2, "missing", message="no such name"), channel="2.7.1"),
        record(*wrong, outcome(MENDED, 2), outcome(MENDED, 4), outcome("b.x"), channel="2.8.0"),
        record(outcome(ROW), outcome(ROW, 4), failed("b.x"), channel="2.9.1"),
    ]
    mended = quirk(workaround=MENDED, mends="Force\na sum.", links=["https://example.org/1"], **more)
    return dataset.build(records, KNOWN, [mended], CATALOGUE)


def explain(torch: str, row: str = ROW, found: Dataset | None = None, **more: Any) -> list[str]:
    found = found or made_up()
    return terminal.explain(found, published.answer(found, row, torch=torch, **more)).splitlines()


# ---- explain -------------------------------------------------------------------------------------


def test_it_is_told_in_under_ten_lines() -> None:
    assert explain("2.8") == [
        f"{ROW}: Gradients are right",
        "torch 2.8 (2.8.0), gloo on cpu: no: wrong (summed) on 2.8.0 with 2 and 4 ranks",
        "Since 2.7.1, until 2.8.0; before, 2.6.0: no, error (2.7.0 not measured); after, 2.9.1: yes",
        "Works on: 2.9.1",
        "Known as: It sums (sums)",
        "What to do: Force a sum.",
        f"Measured there: {MENDED}: yes, passes on 2.8.0 with 2 and 4 ranks",
        "See: https://example.org/1",
        "Measured: 2026-01-31 on torch 2.8.0+cu128 (cuda-nodriver), Python 3.11.9, linux x86_64",
    ]


def test_a_workaround_that_does_not_work_there_is_told_with_its_reason() -> None:
    assert f"Measured there: {MENDED}: no, missing on 2.7.1 with 2 ranks: no such name" in explain("2.7.1")


def test_what_nobody_measured_is_not_said_to_help() -> None:
    found = dataset.build(
        [record(failed("b.x"))], KNOWN, [quirk(cases=["b.x"], shows=["error"], mends="Wait.")], {}
    )
    assert "Measured there: nothing; no row tries what to do" in explain("2.8.0", "b.x", found)
    assert "Works on: no measured release" in explain("2.8.0", "b.x", found)


def test_what_works_says_since_when() -> None:
    assert explain("2.9.1")[1:3] == [
        "torch 2.9.1, gloo on cpu: yes: passes on 2.9.1 with 2 and 4 ranks",
        "Only on 2.9.1; before, 2.8.0: no, wrong (summed)",
    ]
    found = dataset.build([record(outcome(ROW), channel=channel) for channel in KNOWN], KNOWN, [], CATALOGUE)
    assert explain("2.8", found=found)[2] == (
        "Since 2.6.0 (the oldest measured), until 2.9.1 (the newest measured)"
    )


def test_what_is_unknown_says_how_to_measure_it() -> None:
    assert explain("2.7.0") == [
        f"{ROW}: Gradients are right",
        "torch 2.7.0, gloo on cpu: unknown: 2.7.0 was not measured; 2.6.0: no, 2.7.1: no",
        "Works on: 2.9.1",
        f"To measure it where that torch is installed: canishard run --backend gloo --device cpu --case '{ROW}'",
    ]


def test_a_terminal_shows_a_hostile_message_and_does_not_obey_it() -> None:
    text = "\n".join(explain("2.6.0"))
    assert "RuntimeError: <script>alert(1)</script> | [31mred [0m `code` $x$" in text
    assert all(line.isprintable() for line in text.splitlines())


# ---- diff ----------------------------------------------------------------------------------------


def diff(old: str, new: str, *families: str, found: Dataset | None = None) -> list[str]:
    text = terminal.diff(found or made_up(), old, new, backend="gloo", device="cpu", families=families)
    return text.splitlines()


def test_changes_are_grouped_the_worst_first() -> None:
    assert diff("2.8.0", "2.9.1") == [
        "torch 2.8.0 -> 2.9.1, gloo on cpu: 5 cells changed",
        "",
        "regressed (1): passed, and does not any more",
        "  b.x (2 ranks): pass -> error",
        "",
        "removed (2): was not measured on the newer one",
        f"  {MENDED} (2 and 4 ranks): pass -> absent",
        "",
        "fixed (2): passes, and did not",
        f"  {ROW} (2 and 4 ranks): wrong (summed) -> pass",
    ]


def test_one_family_only() -> None:
    assert diff("2.8.0", "2.9.1", "b")[0].endswith(": 1 cell changed")
    assert diff("2.8.0", "2.9.1", "c") == ["torch 2.8.0 -> 2.9.1, gloo on cpu: 0 cells changed"]


def test_the_same_build_is_compared_and_another_is_said() -> None:
    def column(channel: str, flavour: str, status: str) -> Record:
        return record(outcome(ROW, status=status), channel=channel, flavour=flavour)

    both = [column("2.8.0", "cpu", "pass"), column("2.8.0", "cuda", "error"), column("2.9.1", "cpu", "pass")]
    assert diff("2.8.0", "2.9.1", found=dataset.build(both, KNOWN, [], {})) == [
        "torch 2.8.0 -> 2.9.1, gloo on cpu: 0 cells changed"
    ]
    other = [column("2.8.0", "cuda", "error"), column("2.9.1", "cpu", "pass")]
    assert diff("2.8.0", "2.9.1", found=dataset.build(other, KNOWN, [], {}))[1] == (
        "Another build (cuda -> cpu): a change may be due to that."
    )


# ---- check ---------------------------------------------------------------------------------------


def test_what_stands_against_needs_is_told_once_a_reason() -> None:
    cells = [
        failed("a.x", message="RuntimeError: no"),
        failed("a.y", message="RuntimeError: no"),
        outcome("a.z"),
    ]
    records = [record(*cells), record(*map(outcome, ("a.x", "a.y", "a.z")), channel="2.9.1")]
    found = dataset.build(records, KNOWN, [], {})
    rows = needs.resolve(["a"], found)
    findings = [needs.evaluate(found, rows, torch=torch) for torch in ("2.9.1", "2.8.0", "2.7.0")]
    assert terminal.check(findings, rows).splitlines() == [
        "2.9.1  holds",
        "2.8.0  blocked (2 of 3 rows)",
        "       - a.x, a.y: no: error on 2.8.0 with 2 ranks: RuntimeError: no",
        "2.7.0  unknown (3 of 3 rows)",
        "       - a.x, a.y: unknown: 2.7.0 was not measured; 2.8.0: no",
        "       - a.z: unknown: 2.7.0 was not measured; 2.8.0: yes",
        "holds on: 2.9.1",
    ]


def test_a_workaround_is_named() -> None:
    finding = needs.evaluate(made_up(), [ROW], torch="2.8")
    assert f"; {MENDED} passes there" in terminal.check([finding], [ROW])


# ---- table ---------------------------------------------------------------------------------------


def table(kind: formats.Format, **more: Any) -> str:
    found = made_up()
    return formats.tables(found.records, found.by_id, kind, **more)


def test_a_plain_table_has_symbols_words_and_notes() -> None:
    lines = table("plain").splitlines()
    assert lines[0] == "b: gloo on cpu, linux x86_64"
    assert "b.x" in lines[4]
    text = "\n".join(lines)
    assert "⚠️ error [1]" in text
    assert "❌\ufe0f wrong [1]" in text
    assert "[1] summed" in text
    assert all(line.isprintable() for line in text.replace("\ufe0f", "").splitlines())


def test_every_symbol_of_a_plain_table_is_two_characters() -> None:
    write = formats.WRITERS["plain"].symbol
    assert {len(write(SYMBOLS[status])) for status in MEANINGS} == {2}


def test_the_words_alone_where_symbols_cannot_be_written() -> None:
    assert table("plain", symbols=False).isascii()
    assert "wrong [1]" in table("plain", symbols=False)


def test_a_table_for_github_escapes_what_markdown_would_obey() -> None:
    text = table("github")
    assert f"| `{ROW}`" in text
    assert "❌ wrong <sup>1</sup>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \\|" in text
    assert "\x1b" not in text


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert attrs == []

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_a_table_in_html_runs_no_script_of_a_message() -> None:
    found = Tags(table("html"))
    assert found.tags == {"h3", "table", "thead", "tbody", "tr", "th", "td", "ol", "li"}
    assert "RuntimeError: <script>alert(1)</script> | [31mred [0m `code` $x$" in found.words
    assert ROW in found.words


@pytest.mark.parametrize("kind", formats.FORMATS)
def test_builds_that_differ_are_both_shown(kind: formats.Format) -> None:
    records = [record(outcome(ROW)), record(failed(ROW), flavour="cpu")]
    text = formats.tables(records, [ROW], kind)
    assert "nodrv; " in text or "cpu; " in text
