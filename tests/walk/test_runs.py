"""Tests of canishard.walk.runs: reading what a run left, and putting it into words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from canishard.walk.runs import Run, describe, exit_code, failing_step, read_run

SUMMARY = {
    "selected": 4,
    "measured": 3,
    "reused": 1,
    "counts": {"wrong": 1, "pass": 3},
    "changes": [],
    "infra": None,
    "exit_code": 0,
    "seconds": 20.0,
}


FAILED_INSTALL = """\
nox > uv pip install torch
nox > Command uv failed with exit code 1:
nox > Using Python
  x No solution
  because

nox > Session checks failed.
"""
FAILED_CHECKS = """\
nox > python -m pytest
one
two
\x1b[31mthree\x1b[0m
four
nox > Command python failed with exit code 3
"""
NO_PYTHON = "Session checks(1) failed: Python interpreter 3.11 not found."


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", ""),
        (FAILED_INSTALL, "x No solution / because"),
        (FAILED_CHECKS, "two / three / four"),
        (f"nox > {NO_PYTHON}", "Python interpreter 3.11 not found"),
        (f"error: no download\n  cause: no route\nnox > {NO_PYTHON}", "Python interpreter 3.11 not found"),
    ],
    ids=["empty", "install", "shown", "interpreter", "an interpreter that uv could not fetch"],
)
def test_failing_step(output: str, expected: str) -> None:
    assert failing_step(output) == expected


@pytest.mark.parametrize(
    ("said", "code", "infra"),
    [
        ({}, 0, ""),
        ({"exit_code": 10}, 10, ""),
        ({"infra": "canary is hang", "exit_code": 11}, 11, "canary is hang"),
        ({"exit_code": 2}, 2, "not complete, exit code 2"),
    ],
)
def test_a_run_with_a_summary(tmp_path: Path, said: dict[str, object], code: int, infra: str) -> None:
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({**SUMMARY, **said}), encoding="utf-8")
    run = read_run("7.1.0", path, tmp_path / "log", code, 50.0)
    assert (run.infra, run.install_s, run.check_s) == (infra, 30.0, 20.0)


def test_a_run_without_a_summary_has_a_reason(tmp_path: Path) -> None:
    run = read_run("7.1.0", tmp_path / "summary.json", tmp_path / "log", 1, 5.0)
    assert run == Run(release="7.1.0", infra="no summary, exit code 1", install_s=5.0)


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ([], 0),
        ([Run(release="7.1.0", summary=SUMMARY)], 0),
        ([Run(release="7.1.0", summary=SUMMARY), Run(release="7.2.0", infra="no wheel")], 11),
        (
            [
                Run(release="7.1.0", infra="no wheel"),
                Run(release="7.2.0", summary={**SUMMARY, "exit_code": 10}),
            ],
            10,
        ),
    ],
    ids=["none", "same", "infra", "changed"],
)
def test_exit_code(runs: list[Run], code: int) -> None:
    assert exit_code(runs) == code


def test_describe() -> None:
    change = {"id": "a.b[c=d]", "world_size": 4, "change": "newly_wrong", "old": "pass", "new": "wrong"}
    runs = [
        Run(release="7.1.0", summary={**SUMMARY, "changes": [change], "exit_code": 10}, install_s=31.4),
        Run(release="7.2.0", infra="no wheel", install_s=2.0),
    ]
    assert describe(runs).splitlines() == [
        "",
        "  torch    pass    wrong    measured    reused    changed    install s    checks s",
        "-------  ------  -------  ----------  --------  ---------  -----------  ----------",
        "  7.1.0       3        1           3         1          1           31          20",
        "  7.2.0                        infra                                 2",
        "",
        "7.2.0: infra: no wheel",
        "7.1.0: newly_wrong: a.b[c=d] on 4 ranks: pass -> wrong",
        "3 cells measured, 1 taken from what this machine measured before.",
        "Open reports/COMPATIBILITY.md for the table.",
    ]


def test_what_is_known_counts_as_reused() -> None:
    run = Run.from_known("7.1.0", {**SUMMARY, "exit_code": 10, "changes": [{"id": "a.b"}]})
    assert (run.count("measured"), run.count("reused"), run.is_changed, run.check_s) == (0, 4, False, 0.0)
    assert "Nothing changed: 0 cells measured, 4 taken" in describe([run])
