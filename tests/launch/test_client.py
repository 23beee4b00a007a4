"""What ranks inherit of the caller's environment, and what of it is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from canishard.launch import recorded_environment
from canishard.launch.client import rank_environment

CALLER = {
    "PATH": "/usr/bin",
    "HOME": "/home/somebody",
    "SECRET": "x",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "16",
    "NCCL_DEBUG": "INFO",
}


def test_ranks_inherit_an_allowlist_and_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")

    found = rank_environment(CALLER, "run")

    assert found.keys() & {"HOME", "SECRET", "PYTHONDONTWRITEBYTECODE"} == set()
    assert (found["PATH"], found["NCCL_DEBUG"], found["OMP_NUM_THREADS"]) == ("/usr/bin", "INFO", "1")
    assert (found["CANISHARD_RUN"], found["GLOO_SOCKET_IFNAME"]) == ("run", "lo")


def test_what_the_caller_says_of_interfaces_stays() -> None:
    assert rank_environment({"GLOO_SOCKET_IFNAME": "eth7"}, "run")["GLOO_SOCKET_IFNAME"] == "eth7"


def test_the_python_path_is_absolute_and_begins_with_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ours, theirs = rank_environment({"PYTHONPATH": "relative:"}, "run")["PYTHONPATH"].split(":")

    assert (Path(ours) / "canishard" / "check.py").exists()
    assert theirs == str(tmp_path / "relative")


def test_a_record_keeps_no_places() -> None:
    found = recorded_environment(CALLER)

    assert found["NCCL_DEBUG"] == "INFO"
    assert "PYTHONHASHSEED" in found
    assert [value for value in found.values() if "/" in value] == []


def test_what_is_loaded_before_all_else_is_kept_by_name() -> None:
    preloaded = {**CALLER, "LD_PRELOAD": "/usr/lib/libjemalloc.so.2:/opt/lib/libgomp.so.1"}

    assert recorded_environment(preloaded)["LD_PRELOAD"] == "libjemalloc.so.2 libgomp.so.1"
    assert "LD_PRELOAD" not in recorded_environment(CALLER)


@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "LC_CTYPE", "HOME", "TZ"])
def test_who_calls_does_not_decide_what_is_recorded(name: str) -> None:
    assert recorded_environment({**CALLER, name: "tr_TR.UTF-8"}) == recorded_environment(CALLER)
