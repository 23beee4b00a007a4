"""The page that a night leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping

from made_up import outcome, record
from nightly.nights import (
    GRADIENTS,
    OTHER,
    PIPE,
    PRIM,
    ROWS,
    TRAIN,
    Story,
    catalogue,
    expectation,
    row,
    without,
)

from canishard.nightly import summary as pages
from canishard.nightly import verdict
from canishard.nightly.state import Build, NightVerdict
from canishard.nightly.suspects import suspects


def page(story: Story, cells: Mapping[str, str | None] | None = None, **more: object) -> str:
    before = story.state
    plan = story.night(cells, **more)  # type: ignore[arg-type] # as the story takes them
    return pages.summary(story.last, before, story.rows, plan)


def begun() -> Story:
    story = Story()
    story.night({PRIM: "wrong:summed", GRADIENTS: "wrong:summed"})
    return story


def test_the_verdict_is_first_and_the_indeterminate_are_always_counted() -> None:
    said = page(begun(), {PRIM: "wrong:summed", GRADIENTS: "wrong:summed"})
    assert said.startswith("# Nightly of 2026-01-02: nothing changed\n")
    assert said.splitlines()[4] == "| indeterminate   | comparable   | measured   |"
    assert said.splitlines()[6] == "| 0               | 5            | 5          |"
    assert "Issues: nothing filed, updated or closed." in said


def test_what_stands_is_under_its_cause_with_what_became_of_the_issues() -> None:
    said = page(begun(), {PIPE: "crash", TRAIN: "hang"})
    assert said.startswith("# Nightly of 2026-01-02: changes were confirmed\n")
    assert "## Worse: 2 root causes" in said
    assert "## Fixed: 1 root cause\n\n**`prim.scatter`**\n\n- `prim.scatter[op=avg]` (2 ranks): wrong" in said
    assert "- `pp.gpipe` (2 ranks): pass -> crash" in said
    assert "- filed: pp.gpipe: pass -&gt; crash (gloo, cpu)" in said
    assert f"[{1:040x}"[:11] in said


def test_world_sizes_share_a_line_where_they_agree() -> None:
    cells = {2: "crash", 4: "crash", 8: "hang"}
    before = record(*(outcome(PIPE, size) for size in cells), channel="nightly")
    after = record(*(outcome(PIPE, size, words) for size, words in cells.items()), channel="nightly")
    found = suspects(before, after, [], {(PIPE, size) for size in cells})
    assert pages._together(found.changed) == [
        "`pp.gpipe` (2 and 4 ranks): pass -> crash",
        "`pp.gpipe` (8 ranks): pass -> hang",
    ]


def test_what_was_not_judged_and_why() -> None:
    story = begun()
    story.rows = {**without(ROWS, OTHER), "new.row": row("new.row")}
    cells = {PIPE: "crash", TRAIN: None, PRIM: "wrong:summed", GRADIENTS: "flaky", "new.row": "error"}
    said = page(story, cells, again={PIPE: ["pass", "crash", "crash"]})
    assert "## Flaky: the confirmed cell stays: 1" in said
    assert "the runs disagree (new: 1 x pass, 2 x crash; control: 2 x pass)" in said
    assert "## Not decided (told after 7 nights in a row): 2" in said
    assert "- `fsdp.train` (2 ranks): <code>not measured: the machine's or our fault</code>" in said
    assert "## Added rows: 1\n\n- `new.row` (2 ranks): error" in said
    assert "## Removed rows: 1\n\n- `prim.scatter[op=max]` (2 ranks): pass" in said
    assert said.splitlines()[4] == (
        "| flaky   | added   | removed   | indeterminate   | comparable   | measured   |"
    )
    assert re.findall(r"\d+", said.splitlines()[6]) == ["1", "1", "1", "3", "4", "4"]


def test_expected_and_changed_checks() -> None:
    said = page(
        begun(),
        {PIPE: "crash", PRIM: "wrong:summed", GRADIENTS: "wrong:summed"},
        digests={TRAIN: "another"},
        expected=[expectation()],
    )
    assert "## Expected to differ: 1\n\n- `pp.gpipe` (2 ranks): pass -> crash: it is known" in said
    assert "## The check was changed: not compared: 1\n\n- `fsdp.train` (2 ranks): pass -> pass" in said


def test_a_night_without_a_verdict_says_why_and_since_when() -> None:
    story = begun()
    before = story.state
    plan = story.fault("torch: cannot be imported", Build(torch="2.16.0.dev20260102", git_version="abc"))
    said = pages.summary(story.last, before, story.rows, plan)
    assert said.startswith("# Nightly of 2026-01-02: no verdict about torch\n\nBuild: `2.16.0.dev20260102`.")
    assert "judged: `2.16.0.dev20260101+cpu` (2026-01-01); the column is stale since 2026-01-01." in said
    assert "torch: cannot be imported" in said
    assert "| 0               | 0            | 0          |" in said
    assert "Nights since the last verdict: 1, of which 1 at fault." in said

    before = story.state
    plan = story.fault("again", Build(torch="2.16.0.dev20260102", git_version="abc"))
    said = pages.summary(story.last, before, story.rows, plan)
    assert "It is the build of the night before, 2026-01-02 (infra)." in said

    before = story.state
    said = pages.summary(verdict.without("2026-01-04", NightVerdict.SAME_BUILD, ""), before, ROWS)
    assert said.startswith(
        "# Nightly of 2026-01-04: no verdict: this build was judged already\n\nBuild: no build."
    )
    assert "Issues" not in said


def test_a_mass_is_one_notice() -> None:
    story = Story(catalogue(*(row(f"a.x{index:02}") for index in range(80))))
    story.night()
    said = page(story, dict.fromkeys(list(story.rows)[:60], "crash"))
    assert said.startswith("# Nightly of 2026-01-02: no verdict: too much changed at once\n")
    assert "60 of 80 comparable cells changed" in said
    assert "## Changed or not decided, none of it run again: 60" in said
    assert "- and 10 more" in said
    assert "## Worse" not in said
    assert "- filed: The nightly cannot judge" in said


def test_a_baseline_does_not_list_every_row_as_added() -> None:
    story = Story()
    before = story.state
    plan = story.night({PIPE: "flaky"})
    said = pages.summary(story.last, before, story.rows, plan)
    assert said.startswith("# Nightly of 2026-01-01: a new baseline")
    assert "## Added" not in said
    assert "`pp.gpipe` (2 ranks): `flaky: flaky of pp.gpipe`" in said


def test_expectations_that_can_go_are_listed() -> None:
    story = begun()
    story.night()
    assert story.confirmed is not None
    night = verdict.judged(
        "2026-01-03", story.confirmed, story.confirmed, story.last.suspects, [], unneeded=["a: b"]
    )
    said = pages.summary(night, story.state, ROWS)
    assert "## Expectations that can go (`matrix/expectations.toml`): 1\n\n- a: b" in said
