from __future__ import annotations

from pathlib import Path

import pytest
from made_up import case, environment, outcome, variant

from canishard.launch.outcome import Status
from canishard.record.journal import Journal

CASE = case("family.subject")


def journal(folder: Path, **other: str) -> Journal:
    return Journal(folder, environment(), variant(**other), "fork")


def test_what_was_appended_is_known_in_the_next_run(tmp_path: Path) -> None:
    journal(tmp_path).append(outcome("family.subject"))

    assert journal(tmp_path).known(CASE) == outcome("family.subject")


def test_the_last_line_of_a_case_wins(tmp_path: Path) -> None:
    journal(tmp_path).append(outcome("family.subject", status=Status.WRONG))
    journal(tmp_path).append(outcome("family.subject"))

    known = journal(tmp_path).known(CASE)

    assert known is not None
    assert known.status is Status.PASS


def test_another_world_size_digest_build_or_start_method_is_not_known(tmp_path: Path) -> None:
    journal(tmp_path).append(outcome("family.subject", 4))
    journal(tmp_path).append(outcome("family.subject", digest="fedcba9876543210"))
    journal(tmp_path, torch="2.8.0+cpu").append(outcome("family.subject"))
    Journal(tmp_path, environment(), variant(), "spawn").append(outcome("family.subject"))

    assert journal(tmp_path).known(CASE) is None


@pytest.mark.parametrize("status", [Status.INFRA, Status.FLAKY])
def test_what_settles_nothing_is_measured_again(tmp_path: Path, status: Status) -> None:
    journal(tmp_path).append(outcome("family.subject", status=status))

    assert journal(tmp_path).known(CASE) is None


def test_a_line_that_a_kill_cut_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.append(outcome("family.subject"))
    first.append(outcome("family.other"))
    first.path.write_bytes(first.path.read_bytes()[:-20])

    second = journal(tmp_path)
    second.append(outcome("family.third"))

    assert second.known(CASE) is not None
    assert journal(tmp_path).known(case("family.other")) is None
    assert journal(tmp_path).known(case("family.third")) is not None
