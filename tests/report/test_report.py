"""The generated files: what the page says, that nothing breaks out of it, and that it is checked."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
import tabulate
from made_up import canaries, failed, outcome, quirk, record

from canishard import files, report
from canishard import record as record_files
from canishard.errors import ConfigurationError, StaleReportError
from canishard.facts.steadiness import Steadiness
from canishard.launch.outcome import Status
from canishard.record import Record
from canishard.record.unmeasured import Unmeasured, keep, load
from canishard.report import text
from canishard.report.excerpt import BEGIN, END, filled
from canishard.report.table import MEANINGS, SYMBOLS, Shown, groups, rows

ID, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
SUMMED = "summed instead of averaged"
MISSING = SYMBOLS[Status.MISSING]


def records() -> list[Record]:
    return [
        record(
            *canaries(),
            outcome(ID, 2),
            outcome(ID, 4),
            outcome(MENDED, 2),
            outcome("pp.gpipe", 2, "crash", message="rank 1 died in phase body: signal SIGABRT"),
            channel="2.9.1",
        ),
        record(
            *canaries(),
            outcome(ID, 2, "wrong", deviation=SUMMED, message="gradients: got 2, wanted 1"),
            outcome(ID, 4, "wrong", deviation=SUMMED, message="gradients: got 4, wanted 1"),
            outcome(MENDED, 2),
            outcome("pp.gpipe", 2, names=["torch._old.GPipe"], notes=["PipelineStage requires input_args"]),
            outcome("tp.mlp", 2, "wrong", deviation="no known deviation", message="output: got 3, wanted 1"),
        ),
        record(
            *canaries(),
            outcome(ID, 2, "wrong", deviation=SUMMED),
            outcome(ID, 4, "wrong", deviation=SUMMED),
            outcome(MENDED, 2, "missing", message="f does not exist"),
            failed("pp.gpipe", 2, message="RuntimeError: bad"),
            channel="2.7.1",
        ),
        record(
            *canaries(),
            outcome(ID, 2),
            outcome(ID, 4),
            outcome(MENDED, 2, "missing", message="f does not exist"),
            failed("pp.gpipe", 2, message="RuntimeError: other"),
            channel="2.7.1",
            flavour="cpu",
        ),
    ]


QUIRKS = [
    quirk(workaround=MENDED, mends="Divide.", links=["https://example.org/1"]),
    quirk(name="crashes", title="It crashes", cases=["pp.*"], shows=[Status.CRASH]),
    quirk(name="never", title="It never happens", cases=["tp.*"], shows=[Status.HANG]),
    quirk(name="unseen", title="Nobody looked", cases=["ddp.*"]),
]
RELEASES = ["2.10.0", "2.9.1", "2.8.0", "2.7.1", "2.4.0"]


def section(page: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one."""
    after = page.split(f"\n{heading}\n", 1)[1]
    return after.split("\n#", 1)[0].strip()


def cells(table: str) -> list[list[str]]:
    """Return the cells of the first table in a text, heads first."""
    lines = [line for line in table.splitlines() if line.startswith("|") and not line.startswith("|--")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


# ---- the page ------------------------------------------------------------------------------------


def test_quirks_say_where_and_what_mends_them() -> None:
    page = report.render(records(), RELEASES, QUIRKS)
    assert section(page, "### It sums").splitlines() == [
        "It sums, whatever is asked for.",
        "",
        "- Where: gloo on cpu: **2.7.1 to 2.8.0** (where builds differ: nodrv)",
        "- Not there: 2.9.1",
        "- Workaround, measured by `fsdp2.gradients+force_sum`: works on 2.8.0; missing on 2.7.1",
        "- What to do: Divide.",
        "- Rows: `fsdp2.gradients[reduce=*]`",
        "- See: <https://example.org/1>",
    ]
    assert (
        "- Where: gloo on cpu: **2.9.1**\n- Not there: 2.7.1 to 2.8.0\n"
        in section(page, "### It crashes") + "\n"
    )
    assert "- Where: gloo on cpu: on no measured release (2.8.0)" in section(page, "### It never happens")
    assert "- Where: not measured yet" in section(page, "### Nobody looked")


def test_a_workaround_that_helps_nowhere() -> None:
    one = record(outcome(ID, status="wrong"), outcome(MENDED, status="hang"), outcome("a.x"))
    other = record(outcome(ID, status="wrong"), channel="2.9.1")
    page = report.render([one, other], [], [quirk(workaround=MENDED)])
    assert "works on none of these; hang on 2.8.0; unknown on 2.9.1\n" in page
    assert "- Not there: no measured release\n" in page


def test_a_table_has_the_newest_release_first_and_the_worst_rows_first() -> None:
    page = report.render(records(), RELEASES, QUIRKS)
    found = section(page, "### fsdp2")
    assert cells(found) == [
        ["case", "ranks", "2.9.1<br>nodrv", "2.8.0<br>nodrv", "2.7.1<br>cpu nodrv"],
        [
            "`fsdp2.gradients[reduce=default]`",
            "2, 4",
            "✅",
            "❌<sup>1</sup>",
            "✅ cpu<br>❌<sup>1</sup> nodrv",
        ],
        ["`fsdp2.gradients+force_sum`", "2", "✅", "✅", f"{MISSING}<sup>2</sup>"],
    ]
    assert found.endswith("\n\n1. summed instead of averaged\n2. f does not exist")


def test_notes_of_a_pass_and_of_builds_that_agree() -> None:
    page = report.render(records(), RELEASES, QUIRKS)
    found = section(page, "### pp")
    assert cells(found)[1] == ["`pp.gpipe`", "2", "💥<sup>1</sup>", "✅<sup>2</sup>", "⚠️<sup>3,4</sup>"]
    assert found.splitlines()[4:] == [
        "1. rank 1 died in phase body: signal SIGABRT",
        "2. as torch.\\_old.GPipe; PipelineStage requires input\\_args",
        "3. RuntimeError: other",
        "4. RuntimeError: bad",
    ]


def test_what_is_not_in_a_record_is_unknown() -> None:
    page = report.render(records(), RELEASES, QUIRKS)
    found = section(page, "### tp")
    assert cells(found)[1] == ["`tp.mlp`", "2", "❔", "❌<sup>1</sup>", "❔"]
    assert found.endswith("\n\n1. no known deviation: output: got 3, wanted 1")


def test_what_was_measured() -> None:
    page = report.render(records(), RELEASES, QUIRKS)
    measured = section(page, "## Measured: gloo on cpu, linux x86\\_64")
    assert [line[:8] for line in cells(measured)[1:]] == [
        ["2.9.1", "nodrv", "2.9.1+cu128", "3.11.9", "2026-01-31", "6", "5", ""],
        ["2.8.0", "nodrv", "2.8.0+cu128", "3.11.9", "2026-01-31", "7", "4", "3"],
        ["2.7.1", "cpu", "2.7.1+cu128", "3.11.9", "2026-01-31", "6", "4", ""],
        ["2.7.1", "nodrv", "2.7.1+cu128", "3.11.9", "2026-01-31", "6", "2", "2"],
    ]
    assert measured.endswith("\n\nNot measured: 2.4.0, 2.10.0.")


def test_all_measured_leaves_nothing_to_say() -> None:
    assert "Not measured" not in report.render(records(), ["2.7.1", "2.8.0", "2.9.1"], QUIRKS)


def test_nothing_measured() -> None:
    assert "Nothing has been measured yet.\n" in report.render([], RELEASES, QUIRKS)
    assert report.excerpt([], QUIRKS) == "Nothing has been measured yet."


def test_every_status_has_a_symbol_of_its_own_and_a_meaning() -> None:
    assert {*SYMBOLS} == {*Status}
    assert len({*SYMBOLS.values()}) == len(Status)
    assert {*MEANINGS} == {*Status} - {Status.INFRA}
    page = report.render(records(), RELEASES, QUIRKS)
    assert all(f"| {SYMBOLS[status]} " in section(page, "## How to read it") for status in MEANINGS)


def test_the_same_bytes_from_records_in_any_order() -> None:
    wanted = report.render(records(), RELEASES, QUIRKS)
    for order in itertools.permutations(records()):
        assert report.render(order, RELEASES, QUIRKS) == wanted


def test_the_page_says_that_it_is_generated() -> None:
    page = report.render(records(), RELEASES, QUIRKS)
    assert page.startswith("<!-- generated by `nox -s report`; do not edit -->\n\n# ")
    assert page.endswith("\n")
    assert "\n\n\n" not in page


# ---- rows ----------------------------------------------------------------------------------------


def test_world_sizes_share_a_row_where_all_columns_agree() -> None:
    (group,) = groups(
        [record(outcome("a.x", 1), outcome("a.x", 2), outcome("a.x", 4, "hang"), outcome("b.x", 4))]
    )
    assert [(row.id, row.world_sizes) for row in rows(group)] == [("a.x", [4]), ("a.x", [1, 2]), ("b.x", [4])]
    assert [row.id for row in rows(group, ["b.x"])] == ["b.x"]


def test_a_build_measured_on_two_pythons_says_which() -> None:
    (group,) = groups(
        [record(outcome("a.x")), record(outcome("a.x", status="hang", message="stuck"), python="3.12")]
    )
    (column,) = group.columns
    assert [label for label, _ in column.records] == ["nodrv py3.11", "nodrv py3.12"]
    assert rows(group)[0].cells == [
        [
            Shown(labels=["nodrv py3.11"], status=Status.PASS, notes=[]),
            Shown(labels=["nodrv py3.12"], status=Status.HANG, notes=["stuck"]),
        ]
    ]


def test_a_table_for_each_backend_device_and_platform() -> None:
    places = [{"machine": "arm64"}, {"backend": "mpi"}, {"device": "cuda"}, {"system": "darwin"}, {}]
    found = groups([record(outcome("a.x"), **place) for place in places])
    assert [group.title for group in found] == [
        "gloo on cpu, darwin x86_64",
        "gloo on cpu, linux arm64",
        "gloo on cpu, linux x86_64",
        "gloo on cuda, linux x86_64",
        "mpi on cpu, linux x86_64",
    ]


def test_columns_that_are_no_release_come_first() -> None:
    (group,) = groups(
        [record(outcome("a.x"), channel=name) for name in ("2.9.1", "local", "2.10.0", "nightly")]
    )
    assert [column.channel for column in group.columns] == ["local", "nightly", "2.10.0", "2.9.1"]


# ---- hostile text --------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script> | a\n\n# b `c` **d** [e](f) $g$ &lt; \u202eh\x00"
SHOWN = (
    "&lt;script&gt;alert(1)&lt;/script&gt; \\| a \\# b \\`c\\` \\*\\*d\\*\\* \\[e\\](f) "
    "<span>$</span>g<span>$</span> &amp;lt; h"
)


def test_escape() -> None:
    assert text.escape(HOSTILE) == SHOWN


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        ("1. x", "1\\. x"),
        ("12) x", "12\\) x"),
        ("- x", "\\- x"),
        ("+ x", "\\+ x"),
        ("-1 x", "-1 x"),
        ("1.5 x", "1.5 x"),
    ],
)
def test_a_text_does_not_begin_a_list(start: str, shown: str) -> None:
    assert text.escape(start) == shown


def test_code() -> None:
    assert text.code("a.b[c=d]+e") == "`a.b[c=d]+e`"
    assert text.code("a|b`c") == "<code>a\\|b\\`c</code>"


def test_a_hostile_message_stays_in_its_note() -> None:
    page = report.render([record(failed("a.x", message=HOSTILE))], [], [])
    assert f"\n1. {SHOWN}\n" in page
    assert HOSTILE not in page
    assert "<script" not in page


def test_hostile_names_stay_in_their_cells() -> None:
    page = report.render([record(outcome("a.x"), backend="<b>|`", channel="lo|cal")], ["<i>"], [])
    assert "## Measured: &lt;b&gt;\\|\\` on cpu" in page
    assert "| lo\\|cal<br>nodrv " in page
    assert "Not measured: &lt;i&gt;." in page


def test_widths_do_not_depend_on_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabulate, "WIDE_CHARS_MODE", True)
    assert text.table(["a"], [["✅✅"]]) == "| a   |\n|-----|\n| ✅✅  |"
    assert tabulate.WIDE_CHARS_MODE is True


# ---- the README's excerpt ------------------------------------------------------------------------


def test_excerpt() -> None:
    found = [*records(), record(outcome("a.x"), backend="mpi")]
    lines = report.excerpt(found, QUIRKS).splitlines()
    assert lines[:2] == ["gloo on cpu, linux x86_64:", ""]
    assert cells("\n".join(lines)) == [
        ["case", "ranks", "2.9.1<br>nodrv", "2.8.0<br>nodrv", "2.7.1<br>cpu nodrv"],
        ["`fsdp2.gradients[reduce=default]`", "2, 4", "✅", "❌", "✅ cpu<br>❌ nodrv"],
        ["`fsdp2.gradients+force_sum`", "2", "✅", "✅", MISSING],
        ["`pp.gpipe`", "2", "💥", "✅", "⚠️"],
        ["`tp.mlp`", "2", "❔", "❌", "❔"],
    ]
    assert lines[-2:] == ["", f"✅ pass, ❌ wrong, ⚠️ error, {MISSING} missing, 💥 crash, ❔ unknown"]


def test_filled() -> None:
    readme = f"# Title\n{BEGIN}\nold\n{END}\nrest\n"
    assert filled(readme, "new") == f"# Title\n{BEGIN}\nnew\n{END}\nrest\n"
    assert filled(filled(readme, "new"), "new") == filled(readme, "new")


@pytest.mark.parametrize("readme", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_its_markers(readme: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        filled(readme, "new")
    assert str(raised.value) == f"README.md: needs one {BEGIN} and one {END} after it, each once"


# ---- what could not be measured ------------------------------------------------------------------

FAILED = Unmeasured(
    release="2.4.0", python="3.11", backend="gloo", device="cpu", reason="no <wheel>", day="2026-01-31"
)


def test_a_release_that_could_not_be_measured_has_a_column_with_the_reason() -> None:
    page = report.render(records(), RELEASES, QUIRKS, [FAILED])
    measured = section(page, "## Measured: gloo on cpu, linux x86\\_64")
    assert measured.endswith(
        "\n\n2.4.0 could not be measured: no &lt;wheel&gt; (Python 3.11, 2026-01-31).\n\nNot measured: 2.10.0."
    )
    lines = cells(section(page, "### fsdp2"))
    assert lines[0][-1] == "2.4.0<br>could not be measured"
    assert {line[-1] for line in lines[1:]} == {SYMBOLS[Status.UNKNOWN]}


def test_such_a_column_changes_neither_the_order_of_rows_nor_another_place() -> None:
    without, having = (report.render(records(), RELEASES, QUIRKS, some) for some in ([], [FAILED]))
    ids = [[line[0] for line in cells(section(page, "### fsdp2"))] for page in (without, having)]
    assert ids[0] == ids[1]
    (other,) = groups([record(outcome("a.x"), backend="mpi")], [FAILED])
    assert [column.channel for column in other.columns] == ["2.8.0"]
    (plain,) = groups([record(outcome("a.x"), outcome("b.x", 2, "hang"))], [FAILED])
    assert [row.id for row in rows(plain)] == ["b.x", "a.x"]
    assert [column.channel for column in plain.measured] == ["2.8.0"]


def test_the_report_takes_it_from_the_checkout_until_there_is_a_record(checkout: Path) -> None:
    for release in ("2.4.0", "2.8.0"):
        keep(checkout / "matrix", release, "3.11", ["--backend=gloo"], "no wheel")
    assert [one.release for one in load(checkout / "matrix")] == ["2.4.0"]
    assert (
        "2.4.0 could not be measured" in report.committed(checkout)[Path("reports/COMPATIBILITY.md")].decode()
    )
    pages = report.site_files(checkout)
    assert pages[report.SITE / "table/gloo-cpu-2.html"].count(b"2.4.0 could not be measured: no wheel") == 1
    assert b"could not be measured" in pages[report.SITE / "index.html"]


# ---- writing and checking ------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for found in records():
        record_files.save(found, tmp_path / "matrix" / "results" / f"{found.name}.json")
    for name in ("quirks", "claims", "releases"):
        content = (files.matrix_dir() / f"{name}.toml").read_bytes()
        (tmp_path / "matrix" / f"{name}.toml").write_bytes(content)
    return tmp_path


def test_write_then_check(checkout: Path) -> None:
    (checkout / "README.md").write_text(f"# Title\n{BEGIN}\n{END}\n", encoding="utf-8")
    written = {path.as_posix() for path in report.write(checkout)}
    badges = {path for path in written if path.startswith("reports/badges/gloo-cpu/")}
    assert badges
    assert written - badges == {
        "README.md",
        "matrix/evidence.schema.json",
        "matrix/record.schema.json",
        "reports/COMPATIBILITY.md",
        "reports/canishard.json",
        "reports/canishard.schema.json",
    }
    assert report.write(checkout) == []
    report.check(checkout)
    assert "| `fsdp2.gradients+force_sum`" in (checkout / "README.md").read_text(encoding="utf-8")


def test_a_checkout_without_a_readme(checkout: Path) -> None:
    assert Path("README.md") not in report.write(checkout)
    report.check(checkout)


def test_the_site_is_whole_and_lies_in_its_folder_alone(checkout: Path) -> None:
    written = {path.relative_to(report.SITE).as_posix() for path in report.write_site(checkout)}
    assert written >= {"index.html", "canishard.json", "canishard.csv", "canishard.schema.json"}
    assert report.write_site(checkout) == []
    (checkout / report.SITE / "left.html").write_text("of a row that is gone", encoding="utf-8")
    assert report.write_site(checkout) == [report.SITE / "left.html"]
    assert not (checkout / report.SITE / "left.html").exists()


def test_git_ignores_the_site_and_what_is_committed_is_no_part_of_it() -> None:
    root = files.checkout()
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"/{report.SITE.as_posix()}/" in lines
    assert not [path for path in report.committed(root) if report.SITE in path.parents]


def test_stale_files_are_named(checkout: Path) -> None:
    report.write(checkout)
    (checkout / "reports" / "COMPATIBILITY.md").write_text("edited", encoding="utf-8")
    (checkout / "matrix" / "record.schema.json").unlink()
    (checkout / "reports" / "badges" / "left.svg").write_text("of a row that is gone", encoding="utf-8")
    with pytest.raises(StaleReportError) as raised:
        report.check(checkout)
    assert str(raised.value) == (
        "not what matrix/ gives: reports/COMPATIBILITY.md, matrix/record.schema.json, reports/badges/left.svg; "
        "run `nox -s report` and commit the result"
    )
    report.write(checkout)
    report.check(checkout)
    assert not (checkout / "reports" / "badges" / "left.svg").exists()


def test_no_path_of_this_machine_is_in_what_is_generated(checkout: Path) -> None:
    for content in [*report.committed(checkout).values(), *report.site_files(checkout).values()]:
        assert str(checkout).encode() not in content


def test_without_the_template_engine_all_but_the_site_is_written_and_it_says_what_to_install(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("canishard.report.site")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(report, "site", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    report.write(checkout)
    report.check(checkout)
    with pytest.raises(ConfigurationError, match=r"pip install 'canishard\[report\]'"):
        report.write_site(checkout)


def test_a_nightly_column_that_is_stale_says_so(checkout: Path) -> None:
    nightly = record(*canaries(), outcome(ID, 2), channel="nightly")
    content = report.site_files(checkout, [report.Nightly(record=nightly, stale="2026-11-28")])
    table = content[Path("reports/site/table/gloo-cpu-2.html")].decode()
    assert "nightly" in table
    assert table.count("stale since 2026-11-28") == 1
    assert "stale since 2026-11-28" in content[Path("reports/site/index.html")].decode()
    assert b"stale since" not in report.site_files(checkout)[Path("reports/site/index.html")]


def test_the_first_page_says_how_steady_the_suite_is(checkout: Path) -> None:
    steady = Steadiness(torch="2.8.0+cpu", date="2026-11-30", runs=2, cells=10, differing=[])
    page = report.site_files(checkout, [], steady)[Path("reports/site/index.html")].decode()
    assert "How steady it is: 0 of 10 cells differed from the first run" in page
