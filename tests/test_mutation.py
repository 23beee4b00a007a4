"""The figures of ``nox -s mutation``, and what it changes."""

from __future__ import annotations

from collections import Counter

import mutation
import pytest

from canishard.files import read_toml

RESULTS = """\
    canishard.facts.claims.x_load__mutmut_1: killed
    canishard.facts.compare.x_compare__mutmut_1: timeout
    canishard.facts.compare.x_compare__mutmut_2: survived
    canishard.launch.judge.x_judge__mutmut_1: no tests
    canishard.record.merge.x_merge__mutmut_1: not checked

"""


def test_what_was_not_tested_counts_for_nothing() -> None:
    assert mutation.count(RESULTS) == {
        "facts": Counter(killed=1, timeout=1, survived=1),
        "launch": Counter({"no tests": 1}),
    }


def test_the_table_has_a_line_a_folder() -> None:
    assert [line.split() for line in mutation.table(mutation.count(RESULTS)).splitlines()[2:]] == [
        ["facts", "3", "1", "66.7", "%"],
        ["launch", "1", "1", "0.0", "%"],
    ]


def test_what_no_test_sees_is_named() -> None:
    assert mutation.unseen(RESULTS) == [
        "canishard.facts.compare.x_compare__mutmut_2",
        "canishard.launch.judge.x_judge__mutmut_1",
    ]


@pytest.mark.parametrize(("floor", "code"), [(75, 0), (76, 1)])
def test_below_the_floor_it_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], floor: int, code: int
) -> None:
    tools = {"mutmut": {"only_mutate": ["src/canishard/facts/*.py"]}, "canishard": {"mutation-floor": floor}}
    calls = []

    def mutmut(*arguments: str, quiet: bool = False) -> str:
        calls.append(arguments)
        return RESULTS.replace("launch.judge", "facts.claims").replace("no tests", "killed") if quiet else ""

    monkeypatch.setattr(mutation, "read_toml", lambda _: {"tool": tools})
    monkeypatch.setattr(mutation, "mutmut", mutmut)
    monkeypatch.setattr("mutation.shutil.rmtree", lambda *_, **__: None)

    assert mutation.main(["facts"]) == code
    assert ("below 76 %: facts" in capsys.readouterr().out) is bool(code)
    assert calls[0] == ("run", "canishard.facts.*")


def test_another_folder_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        mutation.options(["facts", "record"], ["fact"])
    assert "fact: no such folder; allowed: facts, record" in capsys.readouterr().err


def test_all_that_is_named_is_there() -> None:
    settings = read_toml(mutation.ROOT / "pyproject.toml")["tool"]["mutmut"]

    assert mutation.folders_of(settings["only_mutate"]) == ["catalogue", "facts", "launch", "record"]
    assert all(list(mutation.ROOT.glob(pattern)) for pattern in settings["only_mutate"])
    tests = settings["pytest_add_cli_args_test_selection"]
    assert all((mutation.ROOT / path).exists() for path in tests)
