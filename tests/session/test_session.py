"""The pytest plugin as people call it: in a process of its own, on the torch that is installed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from canishard import pytest_plugin
from canishard.catalogue import renamed
from canishard.session.items import Checks

torch_needed = pytest.mark.torch
RELEASE: tuple[str, ...] = ()
with contextlib.suppress(PackageNotFoundError):  # Where there is none, the tests that use it are left out.
    RELEASE = ("--release", version("torch").partition("+")[0])
"""The torch that is installed, named: only then is a case known from one run to the next."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def pytest_in(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder of its own."""
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env={**ENVIRONMENT, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def checks_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return pytest_in(folder, "--pyargs", "canishard.checks", *arguments)


def test_another_project_that_defines_our_options_itself_is_untouched(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--backend', default='theirs')\n"
    )
    (tmp_path / "test_theirs.py").write_text(
        "import sys\n\n\ndef test_theirs(request):\n"
        "    assert request.config.getoption('--backend') == 'ours'\n"
        "    assert not request.config.pluginmanager.has_plugin('canishard-runner')\n"
        "    assert 'canishard.session' not in sys.modules\n"
    )

    done = pytest_in(tmp_path, "--backend", "ours", "-q")

    assert done.returncode == 0, done.stdout + done.stderr


def test_an_old_id_selects_the_row_that_has_another_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "load", lambda: {"a.old": "a.new[op=x]"})
    lines: list[str] = []
    terminal = SimpleNamespace(write_line=lines.append)
    collector: Any = SimpleNamespace(
        state=SimpleNamespace(
            cases=[SimpleNamespace(id="a.new[op=x]")], option=SimpleNamespace(case=["a.old", "b.*"])
        ),
        config=SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin={"terminalreporter": terminal}.get)),
    )

    assert vars(Checks)["_patterns"].func(collector) == ["a.new[op=x]", "b.*"]
    assert lines == ["canishard: --case: a.old is called a.new[op=x] now"]


def test_auto_workers_leave_no_rank_waiting_for_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def workers(cores: int | None, *arguments: str) -> int | None:
        monkeypatch.setattr(os, "cpu_count", lambda: cores)
        config: Any = SimpleNamespace(invocation_params=SimpleNamespace(args=arguments))
        return pytest_plugin.pytest_xdist_auto_num_workers(config)

    asked = ("--pyargs", "canishard.checks", "-n", "auto")
    assert [workers(cores, *asked) for cores in (None, 2, 4, 7, 8, 16)] == [0, 0, 0, 0, 2, 4]
    assert workers(16, "tests", "-n", "auto") is None


@torch_needed
def test_collect_only_lists_cases_and_runs_none(tmp_path: Path) -> None:
    done = checks_in(tmp_path, "--collect-only", "-q", "--world-size", "2", "--case", "*reduce*[op=sum]")

    assert done.stdout.splitlines()[:2] == [
        "canishard.checks::collectives.all_reduce[op=sum][ranks=2]",
        "canishard.checks::collectives.reduce[op=sum][ranks=2]",
    ]
    assert not (tmp_path / ".canishard").exists()


@torch_needed
def test_a_record_is_written_reused_and_left_as_it_is(tmp_path: Path) -> None:
    options = ("--record", "out.json", "--case", "canary.*", "--spawn-sample", "0", *RELEASE)

    first = checks_in(tmp_path, *options)
    written = (tmp_path / "out.json").read_bytes()
    second = checks_in(tmp_path, *options)
    third = checks_in(tmp_path, *options, "--fresh")

    assert [done.returncode for done in (first, second, third)] == [0, 0, 0], first.stdout + first.stderr
    assert "2 cases measured, 0 known already" in first.stdout
    assert "0 cases measured, 2 known already (nothing changed since)" in second.stdout
    assert "2 cases measured, 0 known already" in third.stdout
    assert (tmp_path / "out.json").read_bytes() == written
    unnamed = checks_in(tmp_path, *options[:-2], "--record", "unnamed.json")
    assert "2 cases measured, 0 known already" in unnamed.stdout
    cells = json.loads(written)["cells"]
    assert [(cell["id"], cell["world_size"], cell["status"]) for cell in cells] == [
        ("canary.all_reduce", 2, "pass"),
        ("canary.all_reduce", 4, "pass"),
    ]


@torch_needed
def test_a_changed_cell_is_told_and_has_its_exit_code(tmp_path: Path) -> None:
    options = ("--record", "out.json", "--case", "canary.*", "--world-size", "2", "--spawn-sample", "0")
    checks_in(tmp_path, *options)
    path = tmp_path / "out.json"
    path.write_text(path.read_text().replace('"pass"', '"error"'))

    done = checks_in(tmp_path, *options, "--fresh", "--summary", "summary.json")

    assert done.returncode == 10, done.stdout + done.stderr
    assert "canishard: fixed: canary.all_reduce (2 ranks): error -> pass" in done.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["changes"] == [
        {"id": "canary.all_reduce", "world_size": 2, "change": "fixed", "old": "error", "new": "pass"}
    ]


@torch_needed
def test_committed_cells_are_taken_and_never_mixed_with_those_of_other_conditions(tmp_path: Path) -> None:
    options = ("--record", "out.json", "--world-size", "2", "--spawn-sample", "0", "--reuse-committed")
    checks_in(tmp_path, *options, *RELEASE, "--state", "one", "--case", "canary.*")
    path = tmp_path / "out.json"
    same = checks_in(tmp_path, *options, *RELEASE, "--state", "two", "--case", "canary.*")
    path.write_text(re.sub(r'"(glibc|python)": "(3[.][0-9]+)?[^"]*"', r'"\1": "\2"', path.read_text()))
    path.write_text(path.read_text().replace('"glibc": ""', '"glibc": "1.0"'))
    before = path.read_bytes()
    details = checks_in(tmp_path, *options, *RELEASE, "--state", "three", "--case", "canary.*")
    after = path.read_bytes()
    path.write_text(re.sub(r'"git_version": "[^"]*"', '"git_version": "d4e5f6"', path.read_text()))
    other = path.read_bytes()
    mixed = checks_in(tmp_path, *options, *RELEASE, "--state", "four", "--case", "canary.*")

    assert "0 cases measured, 1 known already" in same.stdout
    assert "0 cases measured, 1 known already" in details.stdout
    assert after == before
    assert [done.returncode for done in (same, details, mixed)] == [0, 0, 2], mixed.stdout
    assert (
        "nothing was taken from the record, measured under other conditions: git_version d4e5f6"
        in mixed.stdout
    )
    assert "was measured under other conditions (git_version d4e5f6 there," in mixed.stdout
    assert path.read_bytes() == other


@torch_needed
def test_a_variable_that_can_change_a_result_is_measured_with(tmp_path: Path) -> None:
    options = ("--record", "out.json", "--case", "canary.*", "--world-size", "2", "--spawn-sample", "0")
    checks_in(tmp_path, *options, *RELEASE)

    done = pytest_in(
        tmp_path, "--pyargs", "canishard.checks", *options, *RELEASE, GLOO_SOCKET_IFNAME="nosuchif"
    )

    assert done.returncode == 11, done.stdout + done.stderr
    assert "no record was written: canary.all_reduce is" in done.stdout


@torch_needed
def test_a_torn_line_of_the_journal_is_told(tmp_path: Path) -> None:
    options = ("--record", "out.json", "--case", "canary.*", "--spawn-sample", "0", *RELEASE)
    checks_in(tmp_path, *options)
    (journal,) = (tmp_path / ".canishard" / "journal").iterdir()
    first, second = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([first[:40], second, b""]))

    done = checks_in(tmp_path, *options)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"canishard: .canishard/journal/{journal.name}: line 1: not JSON, or cut off:" in done.stdout
    assert "1 cases measured, 1 known already" in done.stdout


@torch_needed
def test_a_selection_keeps_the_canary_and_the_other_cells(tmp_path: Path) -> None:
    common = ("--record", "out.json", "--world-size", "2", "--spawn-sample", "0")
    checks_in(tmp_path, *common, "--case", "collectives.reduce[op=sum]")

    checks_in(tmp_path, *common, "-k", "all_reduce and max")

    cells = json.loads((tmp_path / "out.json").read_text())["cells"]
    assert [cell["id"] for cell in cells] == [
        "canary.all_reduce",
        "collectives.all_reduce[op=max]",
        "collectives.reduce[op=sum]",
    ]


@torch_needed
def test_under_xdist_the_controller_alone_writes(tmp_path: Path) -> None:
    done = checks_in(
        tmp_path,
        "-n",
        "2",
        "--record",
        "out.json",
        "--case",
        "*reduce[op=m*]",
        "--spawn-sample",
        "0",
        *RELEASE,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    cells = json.loads((tmp_path / "out.json").read_text())["cells"]
    (journal,) = (tmp_path / ".canishard" / "journal").iterdir()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len(cells) == len(lines) == len({(line["id"], line["world_size"]) for line in lines})


BACKEND = """
import torch.distributed as dist

def create(store, rank, world_size, timeout):
    return dist.ProcessGroupGloo(store, rank, world_size, timeout)

dist.Backend.register_backend("mine", create, devices=["cpu"])
"""


@torch_needed
def test_a_third_party_backend_is_registered_by_its_package(tmp_path: Path) -> None:
    (tmp_path / "my_backend.py").write_text(BACKEND)
    options = [
        "--backend",
        "mine",
        "--backend-module",
        "my_backend",
        "--case",
        "canary.*",
        "--record",
        "results",
    ]

    done = pytest_in(tmp_path, "--pyargs", "canishard.checks", *options, "--spawn-sample", "0",
                     PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    names = [path.name for path in (tmp_path / "results").glob("*-mine-cpu-*.json")]
    assert sum(not name.endswith(".evidence.json") for name in names) == 1


@torch_needed
@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["-k", "nonsense"], 5, "canishard: nothing selected: -k, --case and --world-size leave no case"),
        (["--release", "1.0"], 11, "is installed where 1.0 was asked for"),
        (
            ["--backend", "nonsense", "--case", "canary.*"],
            11,
            "canishard: no record was written: canary.all_reduce is",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(
    tmp_path: Path, arguments: list[str], code: int, line: str
) -> None:
    done = checks_in(tmp_path, "--record", "out.json", "--summary", "summary.json", *arguments)

    assert done.returncode == code, done.stdout + done.stderr
    assert [line in text for text in (done.stdout + done.stderr).splitlines()].count(True) == 1
    if code == 11:
        assert json.loads((tmp_path / "summary.json").read_text())["infra"] in done.stdout
    assert not (tmp_path / "out.json").exists()


@torch_needed
def test_a_record_cut_in_half_is_one_line_and_stays_as_it_is(tmp_path: Path) -> None:
    options = ("--record", "out.json", "--case", "canary.*", "--spawn-sample", "0")
    checks_in(tmp_path, *options)
    path = tmp_path / "out.json"
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(half)

    done = checks_in(tmp_path, *options)

    assert done.returncode == 12, done.stdout + done.stderr
    assert "out.json: not JSON, or cut off" in done.stdout + done.stderr
    assert path.read_bytes() == half


def test_a_torch_that_cannot_be_imported_is_one_line_of_infra(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise OSError('libcudart.so.99: cannot open shared object file')\n")

    done = pytest_in(
        tmp_path,
        "--pyargs", "canishard.checks", "--record", "out.json",
        PYTHONPATH=os.pathsep.join([str(broken.parent), os.environ.get("PYTHONPATH", "")]),
    )  # fmt: skip

    assert done.returncode == 11, done.stdout + done.stderr
    assert "torch cannot be imported: OSError: libcudart.so.99: cannot open" in done.stdout + done.stderr


@torch_needed
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_run_that_was_cut_goes_on_from_there(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "pytest", "--pyargs", "canishard.checks", "--record", "out.json",
               "--case", "collectives.*", "--world-size", "2", "--spawn-sample", "0", *RELEASE]  # fmt: skip
    running = subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    folder = tmp_path / ".canishard" / "journal"
    deadline = time.monotonic() + 120
    while not (folder.is_dir() and sum(file.read_bytes().count(b"\n") for file in folder.iterdir()) >= 3):
        assert time.monotonic() < deadline
        assert running.poll() is None
        os.sched_yield()
    running.send_signal(number)
    running.wait(60)
    done_before = sum(file.read_bytes().count(b"\n") for file in folder.iterdir())
    assert not (tmp_path / "out.json").exists()

    done = checks_in(tmp_path, *command[5:])

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{done_before} known already" in done.stdout
