"""What is done by gh: a small one stands on the PATH, and keeps its issues in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from nightly.fake import Fake
from nightly.nights import PIPE, PRIM, Story

from canishard.errors import InfraError
from canishard.nightly import github
from canishard.nightly.actions import Action, Kind, with_issues
from canishard.nightly.notices import marker


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake(tmp_path)
    for name, value in fake.variables.items():
        monkeypatch.setenv(name, value)
    return fake


def action(kind: Kind, key: str = "abc", comment: str = "", *, is_completed: bool = False) -> Action:
    return Action(
        kind=kind,
        key=key,
        title=f"{kind.value} title",
        body=f"{marker(key)}\n{kind.value} text",
        comment=comment,
        is_completed=is_completed,
    )


def done(*actions: Action) -> list[str]:
    return [str(one) for one in github.apply(actions)]


def test_the_life_of_an_issue(fake: Fake) -> None:
    assert done(action(Kind.OPEN)) == ["#1 filed"]
    assert done(action(Kind.UPDATE)) == ["#1 updated"]
    assert fake.issues[0]["comments"] == []
    assert done(action(Kind.UPDATE, comment="more")) == ["#1 updated"]
    assert done(action(Kind.CLOSE, comment="fixed", is_completed=True)) == ["#1 closed"]
    assert (fake.issues[0]["state"], fake.issues[0]["reason"]) == ("CLOSED", "completed")
    assert done(action(Kind.REOPEN, comment="back")) == ["#1 reopened"]
    assert done(action(Kind.CLOSE, comment="gone")) == ["#1 closed"]
    found = fake.issues[0]
    assert (found["state"], found["reason"], found["title"]) == ("CLOSED", "not planned", "close title")
    assert found["comments"] == ["more", "fixed", "back", "gone"]
    assert found["body"] == f"{marker('abc')}\nclose text"
    assert len(fake.issues) == 1


def test_nothing_to_do_asks_nobody(fake: Fake) -> None:
    assert done() == []
    assert not (fake.folder / "calls").exists()


def test_an_issue_is_found_by_its_hidden_line_and_its_label(fake: Fake) -> None:
    fake.add("abc", label="bug")
    fake.add("other")
    assert fake.add("abc") == 3
    assert done(action(Kind.UPDATE)) == ["#3 updated"]
    assert [issue["title"] for issue in fake.issues] == ["T", "T", "update title"]


def test_of_several_the_open_one_counts(fake: Fake) -> None:
    for state in ("CLOSED", "OPEN", "OPEN", "CLOSED"):
        fake.add("abc", state)
    assert done(action(Kind.UPDATE)) == ["#2 updated"]
    fake.change(2, state="CLOSED")
    fake.change(3, state="CLOSED")
    assert done(action(Kind.REOPEN, comment="back")) == ["#4 reopened"]


def test_one_that_is_filed_again_is_not_filed_twice(fake: Fake) -> None:
    assert done(action(Kind.OPEN)) == ["#1 filed"]
    assert done(action(Kind.OPEN)) == ["#1 updated"]
    fake.change(1, state="CLOSED")
    assert done(action(Kind.OPEN)) == ["#1 reopened"]
    assert len(fake.issues) == 1


def test_what_a_person_did_is_respected(fake: Fake) -> None:
    fake.add("abc", "CLOSED")
    assert done(action(Kind.UPDATE)) == ["#1 updated"]
    assert done(action(Kind.CLOSE, comment="fixed")) == ["#1 updated"]
    assert (fake.issues[0]["state"], fake.issues[0]["comments"]) == ("CLOSED", [])
    fake.change(1, state="OPEN")
    assert done(action(Kind.REOPEN, comment="back")) == ["#1 updated"]
    assert fake.issues[0]["comments"] == ["back"]


def test_one_that_was_deleted_is_filed_anew_unless_it_is_over(fake: Fake) -> None:
    assert done(action(Kind.CLOSE, comment="fixed")) == ["abc: there is no issue to close"]
    assert done(action(Kind.UPDATE, comment="more")) == ["#1 filed"]
    assert fake.issues[0]["comments"] == []


def test_long_and_hostile_texts_are_no_arguments(fake: Fake) -> None:
    text = f"{marker('abc')}\n--repo evil $(touch x) `y`\n{'x' * 60_000}"
    github.apply([Action(kind=Kind.OPEN, key="abc", title="--title", body=text)])
    assert (fake.issues[0]["body"], fake.issues[0]["title"]) == (text, "--title")


def test_another_repository(fake: Fake) -> None:
    github.apply([action(Kind.OPEN)], repository="someone/fork")
    assert all(call[-2:] == ["-R", "someone/fork"] for call in fake.calls)


@pytest.mark.parametrize(
    "command", ["issue list", "label create", "issue create", "issue edit", "issue comment", "issue close"]
)
def test_a_step_that_fails_is_one_line_and_can_be_done_again(fake: Fake, command: str) -> None:
    fake.add("old")
    steps = [action(Kind.OPEN), action(Kind.CLOSE, "old", "fixed", is_completed=True)]
    fake.fail(command)
    with pytest.raises(InfraError) as raised:
        github.apply(steps)
    assert str(raised.value) == f"gh {command}: exit code 1: HTTP 502: server error"
    fake.mend()
    github.apply(steps)
    assert [(issue["state"], len(issue["comments"]) >= 1) for issue in fake.issues] == [
        ("CLOSED", True),
        ("OPEN", False),
    ]


def test_an_issue_that_nothing_follows_says_so_once(fake: Fake) -> None:
    for key, state in (("abc", "OPEN"), ("other", "OPEN"), ("closed", "CLOSED")):
        fake.add(key, state)
    fake.add("a person's", label="bug")
    assert [str(one) for one in github.forsake({"other"}, "")] == ["#1 is followed no more, and says so"]
    assert github.forsake({"other"}, "") == []
    assert [len(issue["comments"]) for issue in fake.issues] == [1, 0, 0, 0]
    assert github.forsake(set(), "another-lane") == []
    assert (fake.issues[0]["state"], fake.issues[0]["title"]) == ("OPEN", "T")
    assert fake.issues[0]["body"].startswith(
        f"{marker('abc')}\n\n**The nightly does not follow this any more:**"
    )
    assert done(action(Kind.OPEN)) == ["#1 updated"]
    assert "does not follow" not in fake.issues[0]["body"]


def test_without_gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfraError, match="there is no gh on the PATH"):
        github.apply([action(Kind.OPEN)])


def test_an_answer_that_is_no_json(fake: Fake) -> None:
    (fake.folder / "gh").write_text("#!/bin/sh\necho sorry\n")
    with pytest.raises(InfraError, match="gh issue list: not the JSON"):
        github.apply([action(Kind.OPEN)])


def test_a_create_that_does_not_say_which(fake: Fake) -> None:
    (fake.folder / "gh").write_text('#!/bin/sh\n[ "$2" = list ] && echo "[]"\nexit 0\n')
    with pytest.raises(InfraError, match="did not print the issue's address"):
        github.apply([action(Kind.OPEN)])


def test_a_gh_that_hangs(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake.folder / "gh").write_text("#!/bin/sh\nexec sleep 30\n")
    monkeypatch.setattr(github, "TIMEOUT_S", 0.2)
    with pytest.raises(InfraError, match="gh issue list: no answer within 0 s"):
        github.apply([action(Kind.OPEN)])


def test_a_story_from_night_to_night(fake: Fake) -> None:
    story = Story()
    said = []
    for cells in ({}, {PIPE: "crash", PRIM: "wrong:summed"}, {PIPE: "crash"}, {}, {PIPE: "crash"}):
        plan = story.night(cells)
        found = github.apply(plan.actions)
        story.state = with_issues(story.state, github.numbers(found))
        said.append([str(one) for one in found])
    assert said == [[], ["#1 filed", "#2 filed"], ["#1 updated", "#2 closed"], ["#1 closed"], ["#1 reopened"]]
    assert [issue["state"] for issue in fake.issues] == ["OPEN", "CLOSED"]
    assert {cause.root: cause.issue for cause in story.state.causes} == {"pp.gpipe": 1, "prim.scatter": 2}
