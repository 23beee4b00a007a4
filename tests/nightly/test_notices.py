"""The texts of issues."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from made_up import outcome
from nightly.nights import GRADIENTS, OTHER, PIPE, PRIM, TRAIN, Story, catalogue, row

from canishard.launch.outcome import Outcome
from canishard.nightly import notices
from canishard.nightly.actions import Action
from canishard.nightly.causes import key_of
from canishard.nightly.state import Build

HOSTILE = "@someone #1 <!-- canishard-cause: f00 --> <script> `x` ``` | $$x$$ [a](http://b) \u202e\x00 end"


def filed(cells: Mapping[str, str | Outcome | None], story: Story | None = None) -> Action:
    story = story or Story()
    story.night()
    return story.night(cells).actions[0]


def test_the_title() -> None:
    assert filed({PIPE: "crash"}).title == "pp.gpipe: pass -> crash (gloo, cpu)"
    cells = dict.fromkeys((PRIM, OTHER, GRADIENTS, TRAIN), "wrong:summed")
    wanted = "prim.scatter: pass -> wrong (summed), and 3 more rows (gloo, cpu)"
    assert filed(cells).title == wanted


def test_a_title_is_short_and_plain() -> None:
    found = filed({PIPE: f"wrong:{HOSTILE}\n{'x' * 300}"}).title
    assert len(found) == notices.TITLE_LENGTH
    assert re.fullmatch(r"[ -~]+", found)


def test_the_body_says_all_that_is_asked_for() -> None:
    body = filed({PRIM: "crash", GRADIENTS: "crash"}).body
    assert body.startswith(f"{notices.marker(key_of(PRIM, 'gloo', 'cpu'))}\n")
    for words in [
        "`prim.scatter[op=avg]`: It &lt;holds&gt;. 2 of 2 cells are open.",
        "backend `gloo`, device `cpu`",
        "first seen on `2.16.0.dev20260102+cpu` (2026-01-02); pass on `2.16.0.dev20260101+cpu` (2026-01-01)",
        f"https://github.com/pytorch/pytorch/compare/{1:040x}...{2:040x}",
        "1 of these rest on `prim.scatter`, and are no causes of their own.",
        "| `fsdp.gradients`       | 2       | pass  | crash    | **open** |",
        "- `crash of prim.scatter[op=avg]`",
        "each in fresh processes (new: 3 x crash; control: 2 x pass)",
        "CANISHARD_TORCH=2.16.0.dev20260102 CANISHARD_TORCH_INDEX=",
        "nox -s \"checks(2.16.0.dev20260102)\" -- --case 'prim.scatter[op=avg]' --backend gloo --device cpu",
        " --device cpu --world-size 2 --fresh",
        "nox -s bisect -- 'prim.scatter[op=avg]' --good 2026-01-01 --bad 2026-01-02",
        r"<code>canishard reproduce 'prim.scatter\[op=avg\]'</code> writes, one file that needs torch alone",
        "Last looked at: `2.16.0.dev20260102+cpu` (2026-01-02).",
    ]:
        assert words in body, words


def test_hostile_text_stays_text() -> None:
    story = Story()
    story.night()
    hostile = outcome(PIPE, status="error", message=HOSTILE, deviation=HOSTILE)
    story.night({PIPE: hostile})
    action = story.plan.actions[0]
    outside = re.sub(r"<code>.*?</code>|`[^`]*`", "", action.body, flags=re.DOTALL)
    for sign in ("@someone", "#1", "<script>", "f00", "$$", "](http://b", "\u202e", "\x00"):
        assert sign not in outside, sign
    assert action.body.count("<!--") == 1


@pytest.mark.parametrize("commit", ["", "unknown", "abc) [x](y", "A" * 40])
def test_a_range_is_of_commits_only(commit: str) -> None:
    good = Build(torch="2.8.0", git_version="a" * 40)
    assert notices.git_range(good, Build(torch="2.9.1", git_version=commit)) == ""
    assert notices.git_range(Build(torch="2.9.1", git_version=commit), good) == ""


def test_a_version_that_is_none_is_no_command() -> None:
    assert notices._checks(Build(torch="$(evil)")) == 'nox -s "checks(VERSION)"'
    assert notices._checks(Build(torch="2.8.0+cu128")) == 'nox -s "checks(2.8.0)"'


def test_a_long_issue_fits() -> None:
    rows = catalogue(*(row(f"prim.scatter[op=x{index:03}]") for index in range(300)))
    story = Story(rows)
    story.night()
    story.night(dict.fromkeys(list(rows)[:80], "wrong:" + "y" * 300))
    action = story.plan.actions[0]
    assert len(action.body) < 65_536
    assert "... and 20 more" in action.body


def test_a_text_that_grows_by_escaping_is_cut() -> None:
    rows = catalogue(*(row(f"prim.scatter[op=x{index:03}]") for index in range(300)))
    story = Story(rows)
    story.night()
    story.night(dict.fromkeys(list(rows)[:80], "wrong:" + "<" * 300))
    body = story.plan.actions[0].body
    assert len(body) <= notices.LENGTH + 20
    assert body.endswith("\n\n(cut)\n")


def test_equal_first_lines_are_there_once() -> None:
    story = Story()
    story.night()
    said = {
        case_id: outcome(case_id, status="error", message="the same") for case_id in (PRIM, GRADIENTS, TRAIN)
    }
    story.night(said)
    assert story.plan.actions[0].body.count("the same") == 1


def test_the_body_changes_with_the_night_and_says_how_it_ended() -> None:
    story = Story()
    first = filed({PIPE: "crash"}, story)
    second = story.night({PIPE: "crash"}).actions[0]
    assert first.body != second.body
    assert "Last looked at: `2.16.0.dev20260103+cpu` (2026-01-03)." in second.body
    last = story.night().actions[0]
    assert last.title == first.title
    assert "| pass  | crash    | works again |" in last.body
    assert "works again: each in fresh processes (new: 3 x pass; control: 2 x pass)" in last.body


def test_a_comment_of_many_rows_is_short() -> None:
    rows = catalogue(row("prim.scatter"), *(row(f"prim.scatter[op=x{index:03}]") for index in range(300)))
    story = Story(rows)
    story.night()
    story.night({"prim.scatter": "crash"})
    story.night({"prim.scatter": "crash", **dict.fromkeys(list(rows)[1:81], "crash")})
    comment = story.plan.actions[0].comment
    assert len(comment.splitlines()) == 2 + notices.ROWS + 1
    assert comment.endswith("- and 20 more")


def test_the_notice_that_nobody_can_tell() -> None:
    story = Story()
    story.night()
    for _ in range(3):
        story.fault(HOSTILE, Build(torch="2.16.0.dev20260102", git_version="abc"))
    body = story.plan.actions[0].body
    outside = re.sub(r"<code>.*?</code>|`[^`]*`", "", body, flags=re.DOTALL)
    assert "@someone" not in outside
    assert body.count("<!--") == 1
    assert "As of 2026-01-04, and since 2026-01-04:" in body
    assert "3 nights since the last verdict gave none" in body
    assert "Last build that was judged: `2.16.0.dev20260101+cpu` (2026-01-01)." in body
    assert (
        story.night().actions[0].comment
        == "The night of 2026-01-05 judged `2.16.0.dev20260105+cpu` (2026-01-05)."
    )
