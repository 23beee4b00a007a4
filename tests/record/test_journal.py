from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up import case, outcome, record, variant

from canishard.launch.outcome import Status
from canishard.record.journal import Journal

CASE = case("family.subject")


def journal(folder: Path, start_method: str = "fork", *, is_dirty: bool = False, **other: Any) -> Journal:
    return Journal(folder, record(**other).conditions, start_method, is_dirty=is_dirty)


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
    journal(tmp_path, variant=variant("2.8.0+cpu")).append(outcome("family.subject"))
    journal(tmp_path, "spawn").append(outcome("family.subject"))

    assert journal(tmp_path).known(CASE) is None


@pytest.mark.parametrize(
    "more",
    [
        {"variables": {"GLOO_SOCKET_IFNAME": "nosuchif"}},
        {"devices": {"NVIDIA H200": 2}},
        {"backend_module": "theirs"},
        {"backend": "mpi"},
        {"variant": variant(git_version="d4e5f6")},
        {"variant": variant(packages={"numpy": "2.4.0"})},
    ],
    ids=["variables", "devices", "module", "backend", "commit", "packages"],
)
def test_what_was_measured_under_other_conditions_is_not_known(tmp_path: Path, more: dict[str, Any]) -> None:
    journal(tmp_path).append(outcome("family.subject"))

    assert journal(tmp_path, **more).known(CASE) is None


def test_what_cannot_change_a_cell_leaves_it_known(tmp_path: Path) -> None:
    journal(tmp_path).append(outcome("family.subject"))

    assert journal(tmp_path, variant=variant(python="3.11.2", glibc="2.41")).known(CASE) is not None


def test_a_clean_checkout_does_not_know_what_a_dirty_one_measured(tmp_path: Path) -> None:
    journal(tmp_path).append(outcome("family.other"))
    journal(tmp_path, is_dirty=True).append(outcome("family.subject"))

    assert journal(tmp_path).known(CASE) is None
    for name in ("family.subject", "family.other"):
        assert journal(tmp_path, is_dirty=True).known(case(name)) is not None


@pytest.mark.parametrize("status", [Status.INFRA, Status.FLAKY, Status.NOT_RUN])
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


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"id":"a.b","world_si', "not JSON, or cut off: Input data was truncated"),
        (b'{"id":"a.b","wor{"id":"a.c"}', "not JSON, or cut off: JSON is malformed"),
        (b'{"id":"a.b","world_size":2,"digest":"0","status":"pass","mood":"good"}', "top: object contains unknown field `mood`"),
        (b'{"id":"a.b","world_size":2,"digest":"0","status":"fine"}', "status: invalid enum value 'fine'"),
        (b'{"id":"a.\xff"}', "not JSON, or cut off: "),
        (b"[]", "top: expected `object`, got `array`"),
    ],
    ids=["torn", "torn and written on", "unknown field", "unknown status", "not UTF-8", "a list"],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_told_and_the_rest_kept(
    tmp_path: Path, line: bytes, fault: str
) -> None:
    first = journal(tmp_path)
    first.append(outcome("family.subject"))
    first.path.write_bytes(first.path.read_bytes() + line + b"\n")
    journal(tmp_path).append(outcome("family.other"))
    content = first.path.read_bytes()

    found = journal(tmp_path)

    assert [found.known(case(name)) is None for name in ("family.subject", "family.other")] == [False, False]
    (said,) = found.faults
    assert said.startswith(f"{found.path}: line 2: {fault}")
    assert "\n" not in said
    assert first.path.read_bytes() == content
