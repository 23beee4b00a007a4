"""Every fault gets its status and its evidence, and the case after it is unaffected."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from canishard.launch import Launcher, Rules, ServerLost, Where, processes, refusals, watch
from canishard.launch.outcome import Case, Kind, Outcome, Status

pytestmark = pytest.mark.torch

Run = Callable[[str], Outcome]

VERDICTS = [
    ("good@2", Status.PASS, ""),
    ("good@4", Status.PASS, ""),
    ("wrong@2", Status.WRONG, "value: got [3, 4]"),
    ("raises[on=one]@2", Status.ERROR, "RuntimeError: no good on one"),
    ("raises[on=all]@2", Status.ERROR, "RuntimeError: no good on all"),
    ("refuses[on=all]@2", Status.UNSUPPORTED, "NotImplementedError: this backend does not do that"),
    ("refuses[on=one]@2", Status.ERROR, "NotImplementedError: this backend does not do that"),
    ("wrong_then_refuses@2", Status.ERROR, "NotImplementedError: this backend does not do that"),
    ("refuses_late@2", Status.UNSUPPORTED, "Unavailable: not on this backend"),
    ("wrong_in_turns@2", Status.FLAKY, "1 wrong (averaged), 1 wrong (summed); value: got 1, wanted 0"),
    ("closes_our_channel@2", Status.INFRA, "code 70 in phase body, not of the check's doing: OSError: "),
    ("hashes@2", Status.PASS, ""),
    ("rejected@2", Status.MISSING, "unexpected keyword argument 'colour'"),
    ("inner_type_error@2", Status.ERROR, "TypeError: object of type 'int' has no len()"),
    ("missing@2", Status.MISSING, "torch.distributed.no_such_thing does not exist (nor torch.neither)"),
    ("compares_nothing@2", Status.INFRA, "the check compared nothing"),
    ("gated_gather@2", Status.HANG, "no report by the deadline, in phase body"),
    ("sleeps@2", Status.HANG, "no report by the deadline, in phase body"),
    ("stopped@2", Status.HANG, "no report by the deadline, in phase body"),
    ("recv_nobody_answers@2", Status.HANG, "no report by the deadline, in phase body"),
    ("mismatched@2", Status.HANG, "no report by the deadline, in phase body"),
    ("raises_differently@2", Status.ERROR, "Unpicklable: <Unpicklable whose str raises RuntimeError>"),
    ("dies[by=SIGSEGV]@2", Status.CRASH, "signal SIGSEGV in phase body"),
    ("dies[by=SIGABRT]@2", Status.CRASH, "signal SIGABRT in phase body"),
    ("dies[by=SIGKILL]@2", Status.CRASH, "signal SIGKILL in phase body"),
    ("dies[by=SIGBUS]@2", Status.CRASH, "signal SIGBUS in phase body"),
    ("dies_by[who=rank0]@2", Status.CRASH, "signal SIGSEGV in phase body"),
    ("dies_by[who=all]@2", Status.CRASH, "signal SIGSEGV in phase body"),
    ("leaves[code=0]@2", Status.CRASH, "code 0 without a report in phase body"),
    ("leaves[code=3]@2", Status.CRASH, "code 3 in phase body"),
    ("sys_exit@2", Status.CRASH, "code 3 in phase body"),
    ("flaky@2", Status.FLAKY, "1 pass, 1 wrong"),
    ("aborts_late@2", Status.PASS, ""),
    ("thread_runs_on@2", Status.PASS, ""),
    ("leaves_children@2", Status.PASS, ""),
    ("shouts@2", Status.PASS, ""),
    ("huge_message@2", Status.ERROR, "ValueError: "),
    ("odd_measurements@2", Status.PASS, ""),
    ("leaves_state@2", Status.PASS, ""),
    ("sees_state@2", Status.PASS, ""),
    ("stages@2", Status.PASS, ""),
    ("hangs_late@2", Status.PASS, ""),
    ("thread_stays@2", Status.PASS, ""),
    ("floods@2", Status.PASS, ""),
    ("leaves_group_open@2", Status.PASS, ""),
    ("memory_short@2", Status.INFRA, "can't allocate memory"),
    ("kills_its_server@2", Status.INFRA, "the server ended with code -9"),
]


@pytest.mark.parametrize("row", VERDICTS, ids=[row[0] for row in VERDICTS])
def test_status_and_message_and_nothing_is_left(
    run: Run, run_again: Run, launcher: Launcher, row: tuple[str, Status, str]
) -> None:
    name, status, message = row

    outcome = run(name)

    assert (outcome.status, message in outcome.message) == (status, True), outcome
    for server in launcher._servers.values():
        assert processes.descendants(server.process.pid) == []
        assert [path for path in server.directory.iterdir() if path.is_dir() and any(path.iterdir())] == []
    assert run_again("good@2").status is Status.PASS


def test_every_case_is_in_the_table(cases: dict[str, Case]) -> None:
    elsewhere = {"missing@4", "stuck_with_children@2", "disk_full@2"}  # two have tests of their own
    assert cases.keys() - elsewhere == {row[0] for row in VERDICTS}


def test_hang_names_the_line_and_what_the_peer_did(run: Run) -> None:
    first, second = run("gated_gather@2").attempts[0].ranks

    source = (Path(__file__).parent / "misbehaving.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "# the line that hangs" in text)
    assert f'misbehaving.py", line {line} in gated_gather' in first.stacks
    assert "in phase body, in all_gather (distributed_c10d.py, line " in run("gated_gather@2").message
    assert (first.exit, first.state) == ("killed by the watchdog", "S (sleeping)")
    assert (second.phase, second.exit) == ("report", "killed by the watchdog")
    assert "in wait_for_release" in second.stacks


def test_the_verdict_on_a_hang_comes_soon_after_its_deadline(
    launcher: Launcher, cases: dict[str, Case]
) -> None:
    case = cases["gated_gather@2"]
    began = time.monotonic()
    attempt = launcher._attempt(case, "first", "fork")
    took = time.monotonic() - began

    assert attempt.status is Status.HANG
    # Joining and killing take a while on a busy machine; without a verdict it would be for ever.
    assert case.deadline_s <= took < case.deadline_s + watch.GRACE_S + watch.STACKS_S


def test_a_stopped_rank_is_told_by_its_state_and_still_gives_its_stack(run: Run) -> None:
    stopped = run("stopped@2").attempts[0].ranks[1]

    assert stopped.state == "T (stopped)"
    assert "in stopped" in stopped.stacks


def test_a_rank_that_fails_while_its_peer_waits_gives_its_own_error(run: Run) -> None:
    attempt = run("raises[on=one]@2").attempts[0]

    assert attempt.first_failing_rank == 1
    assert attempt.ranks[0].exit == "killed by the watchdog"
    assert "all_reduce" in attempt.ranks[0].stacks
    assert "no good on one" in attempt.ranks[1].traceback


def test_deviation_is_named_with_got_and_wanted_from_every_rank(run: Run) -> None:
    outcome = run("wrong@2")

    assert outcome.deviation == "summed instead of averaged"
    assert [rank.mismatches[0]["max_abs_diff"] for rank in outcome.attempts[0].ranks] == [2.0, 2.0]


def test_a_value_noted_before_a_refusal_is_in_the_evidence(run: Run) -> None:
    outcome = run("wrong_then_refuses@2")

    assert [rank.mismatches[0]["got"] for rank in outcome.attempts[0].ranks] == [
        "[3] shape=(1,) dtype=float32"
    ] * 2
    (note,) = outcome.notes
    assert note.startswith("before that a value differed: value: got [3] ")


def test_a_refusal_is_recognised_later_whatever_its_stage_and_its_class(run: Run) -> None:
    outcome = run("refuses_late@2")

    assert [rank.refused for rank in outcome.attempts[0].ranks] == [False, False, True, True]
    assert refusals.load().still_says(outcome)


def test_the_second_server_differs_in_what_a_rank_inherits(
    launcher: Launcher, cases: dict[str, Case]
) -> None:
    first, second = (
        launcher._attempt(cases["hashes@2"], slot, "fork").ranks[0].notes[0] for slot in ("first", "second")
    )

    assert first.partition(",")[0] != second.partition(",")[0]
    assert (first.endswith("False"), second.endswith("True")) == (True, True)


def test_a_sampled_pass_is_run_under_the_second_server(launcher: Launcher, run_again: Run) -> None:
    launcher.sampled = frozenset({("misbehaving.good", 2)})
    try:
        outcome = run_again("good@2")
    finally:
        launcher.sampled = frozenset()

    assert [attempt.start_method for attempt in outcome.attempts] == ["fork", "fork"]


ODD_NAMES = ["a space", "a#b", "a?b", "a%20b", "a'b", "a;b", "\u00fc\u4e2d", 'a"b', "a&b=c+d"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_ranks_meet_in_a_folder_of_any_name(
    launcher: Launcher, cases: dict[str, Case], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr(launcher._server("first", "fork"), "directory", folder)

    for case in ("good@2", "stages@2", "sees_state@2"):
        attempt = launcher._attempt(cases[case], "first", "fork")
        assert (attempt.status, attempt.message) == (Status.PASS, "")
    assert list(folder.iterdir()) == []


def test_a_temporary_folder_of_any_name_will_do(
    cases: dict[str, Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b#c?d%20e'f;\u00fc"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    with Launcher(Where(), Rules(), modules=["misbehaving"]) as launcher:
        found = {
            method: launcher._attempt(cases["good@2"], method, method).status for method in ("fork", "spawn")
        }

    assert found == {"fork": Status.PASS, "spawn": Status.PASS}
    assert list(folder.iterdir()) == []


def test_a_hang_in_which_no_rank_met_another_is_infra(
    launcher: Launcher, cases: dict[str, Case], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "never_joins.py").write_text("import time\ntime.sleep(3600)\n")
    monkeypatch.setattr(launcher, "where", Where(backend_module="never_joins"))

    attempt = launcher._attempt(cases["gated_gather@2"], "first", "fork")

    assert attempt.status is Status.INFRA
    assert attempt.message.startswith("no rank got through init_process_group, in ")


def test_a_rank_that_never_starts_is_infra(
    launcher: Launcher, cases: dict[str, Case], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "starts_late.py").write_text(
        "import os, time\ntime.sleep(3600 * (os.environ.get('RANK') == '1'))\nfrom misbehaving import good\n"
    )
    monkeypatch.setattr(watch, "START_S", 2.0)
    case = msgspec.structs.replace(cases["good@2"], module="starts_late")

    attempt = launcher._attempt(case, "first", "fork")

    assert (attempt.status, attempt.message) == (Status.INFRA, "rank 1 never started")


def test_a_grave_status_is_confirmed_by_spawn_and_a_plain_one_by_a_second_server(run: Run) -> None:
    methods = {
        name: [a.start_method for a in run(name).attempts]
        for name in ("leaves[code=3]@2", "wrong@2", "good@2")
    }

    assert methods == {
        "leaves[code=3]@2": ["fork", "fork", "spawn"],
        "wrong@2": ["fork", "fork"],
        "good@2": ["fork"],
    }


def test_a_status_that_differs_from_the_baseline_is_confirmed_by_spawn(
    launcher: Launcher, run_again: Run
) -> None:
    launcher.baseline = {("misbehaving.good", 2): Kind(Status.WRONG, "summed")}
    try:
        outcome = run_again("good@2")
    finally:
        launcher.baseline = {}

    assert [attempt.start_method for attempt in outcome.attempts] == ["fork", "spawn"]
    assert outcome.status is Status.PASS


def test_an_abort_at_exit_is_a_note_on_a_pass(run: Run) -> None:
    assert run("aborts_late@2").notes == ["rank 1 in teardown: signal SIGABRT"]


def test_children_in_sessions_of_their_own_are_gone(run: Run, folder: Path) -> None:
    run("leaves_children@2")

    assert [processes.is_alive(int((folder / f"child{rank}").read_text())) for rank in (0, 1)] == [
        False,
        False,
    ]


def test_a_hang_at_exit_is_a_note_on_a_pass(run_again: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TEARDOWN_S", 1.0)

    first, second = run_again("hangs_late@2").notes

    assert first.startswith("rank 1 had not left 1 s after its release: in run_and_exit (rank.py, line ")
    assert second == "rank 1 in teardown: killed by the watchdog"


def test_a_flood_of_output_keeps_its_tail_only(run: Run) -> None:
    outputs = [len(rank.output) for rank in run("floods@2").attempts[0].ranks]

    assert outputs == [watch.OUTPUT_TAIL] * 2


def test_a_sigkill_while_the_kernel_killed_for_memory_is_infra(
    run_again: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter(range(1000))
    monkeypatch.setattr(processes, "out_of_memory_kills", lambda: next(kills))

    outcome = run_again("dies[by=SIGKILL]@2")

    assert outcome.status is Status.INFRA
    assert outcome.message == "signal SIGKILL in phase body; the kernel killed a process for memory"


DISK = """
import json, sys
from canishard.launch import refusals
from canishard.launch import Launcher, Where
rules = refusals.load().rules
with Launcher(Where(), rules, modules=["misbehaving"]) as launcher:
    cases = {case.id: case for case in launcher.cases()}
    names = ["disk_full", "good", "disk_full", "good"]
    outcomes = [launcher.run(cases[f"misbehaving.{name}"]) for name in names]
print(json.dumps([[outcome.status.value, outcome.message] for outcome in outcomes]))
"""


@pytest.mark.usefixtures("folder")
def test_a_full_disk_is_infra_and_the_next_case_is_unaffected(tmp_path: Path) -> None:
    mounted = ["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        done = subprocess.run(
            [sys.executable, "-c", DISK], env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        left = list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [status for status, _ in found] == ["infra", "pass", "infra", "pass"]
    assert "No space left on device" in found[0][1]
    assert left == []


THREADED = """
import threading, time
import torch
from canishard.check import check
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()

@check(feature="good", world_sizes=(2,))
def good(context):
    \"\"\"Passes.\"\"\"
    context.equal("one", torch.ones(1), torch.ones(1))
"""


def test_a_server_with_threads_is_not_forked_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "threaded.py").write_text(THREADED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    rules = Rules()

    with Launcher(Where(), rules, modules=["threaded"]) as launcher:
        outcome = launcher.run(launcher.cases()[0])

    assert (launcher.start_method, outcome.status) == ("spawn", Status.PASS)
    assert launcher.fallback == "2 threads run in the server after importing torch"
    with pytest.raises(ServerLost, match="--start-method fork is not safe here: 2 threads"):
        Launcher(Where(), rules, modules=["threaded"], start_method="fork").__enter__()


def test_output_that_is_no_text_is_kept_as_evidence(run: Run) -> None:
    output = run("shouts@2").attempts[0].ranks[0].output

    assert "\\xff\\xfe not text" in output
    assert "from C" in output


def test_odd_measurements_become_texts(run: Run) -> None:
    measured = run("odd_measurements@2").measurements

    assert (measured["nan"], measured["inf"], measured["tensor"]) == ("nan", "inf", "tensor([1., 1.])")


def test_an_absent_backend_is_not_run(launcher: Launcher, cases: dict[str, Case]) -> None:
    gloo = launcher.where
    launcher.where = type(gloo)(backend="mpi")
    try:
        outcome = launcher.run(cases["good@2"])
    finally:
        launcher.where = gloo

    assert (outcome.status, outcome.message) == (Status.NOT_RUN, "this build of torch has no mpi")


def test_a_killed_server_is_infra_and_the_next_case_has_a_new_one(launcher: Launcher, run_again: Run) -> None:
    run_again("good@2")  # There is a server to kill.
    launcher._servers["first"].process.kill()

    assert run_again("good@2").status is Status.PASS


def test_spawn_gives_the_same(launcher: Launcher, cases: dict[str, Case]) -> None:
    names = ["good@4", "wrong@2", "dies[by=SIGSEGV]@2", "gated_gather@2"]
    expected = {name: status for name, status, _ in VERDICTS}

    found = {name: launcher._attempt(cases[name], "spawn", "spawn").status for name in names}

    assert found == {name: expected[name] for name in names}
