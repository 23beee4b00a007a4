"""Tests of canishard.walk.campaign, with a runner that stands in for the nox of each release."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from canishard import releases
from canishard.record import suite, unmeasured
from canishard.releases import Release
from canishard.walk import campaign, install
from canishard.walk.campaign import Options, main, parse

VERSIONS = ["7.1.0", "7.2.0", "7.3.0"]


class FakeNox:
    """Does what the nox of a release does: an environment, a log, a record, a summary."""

    def __init__(self, root: Path, envs: Path) -> None:
        self.root = root
        self.envs = envs
        self.commands: list[list[str]] = []
        self.environs: list[Mapping[str, str]] = []
        self.says: dict[str, dict[str, Any]] = {}
        """What a release's summary says, beside the usual."""
        self.fails: dict[str, tuple[int, str]] = {}
        """The exit code and output of a release that leaves no summary."""
        self.hooks: dict[str, Callable[[], None]] = {}

    def __call__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> int:
        self.commands.append(list(command))
        self.environs.append(environ)
        version = self.version(command)
        envs = Path(command[command.index("--envdir") + 1])
        (envs / f"checks-{version.replace('.', '-')}").mkdir(parents=True, exist_ok=True)
        if version in self.hooks:
            self.hooks[version]()
        if version in self.fails:
            code, output = self.fails[version]
            log.write_text(output, encoding="utf-8")
            return code
        log.write_text("nox > python -m pytest --pyargs canishard.checks\n", encoding="utf-8")
        summary = self.summary(version)
        record = self.root / summary["record"]
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("{}", encoding="utf-8")
        path = Path(command[command.index("--summary") + 1])
        path.write_text(json.dumps(summary), encoding="utf-8")
        return int(summary["exit_code"])

    def summary(self, version: str) -> dict[str, Any]:
        usual = {
            "release": version,
            "record": f"matrix/results/{version}.json",
            "selected": 3,
            "measured": 3,
            "reused": 0,
            "counts": {"pass": 2, "wrong": 1},
            "changes": [],
            "infra": None,
            "exit_code": 0,
            "seconds": 0.0,
        }
        return {**usual, **self.says.get(version, {})}

    @staticmethod
    def version(command: Sequence[str]) -> str:
        return command[command.index("-s") + 1].removeprefix("checks(").removesuffix(")")

    @property
    def ran(self) -> list[str]:
        return [self.version(command) for command in self.commands]


@pytest.fixture
def nox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeNox:
    rows = [Release(version=version, python="3.11", ci=version == "7.1.0") for version in VERSIONS]
    monkeypatch.setattr(releases, "load", lambda: rows)
    monkeypatch.setenv(install.INDEX_VARIABLE, "https://example.org/cpu")
    monkeypatch.delenv("NOX_ENVDIR", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(0, 0, 100 * install.GB))
    (tmp_path / "src" / "canishard").mkdir(parents=True)
    (tmp_path / "src" / "canishard" / "check.py").write_text("one = 1\n", encoding="utf-8")
    return FakeNox(tmp_path, tmp_path / ".nox")


def test_options_say_what_is_passed_on() -> None:
    line = "--torch 7.1.0 --torch >=7.2 -k fsdp2 --case a.b[c=d] --world-size 2 --world-size 4 --fresh -- -x --lf"
    assert parse(line.split()) == Options(
        torch=("7.1.0", ">=7.2"),
        fresh=True,
        pytest=(
            "--backend=gloo",
            "--device=cpu",
            "-kfsdp2",
            "--case=a.b[c=d]",
            "--world-size=2",
            "--world-size=4",
            "-x",
            "--lf",
        ),
    )


@pytest.mark.parametrize(
    ("line", "keep"),
    [("", None), ("--keep-envs", True), ("--drop-envs", False)],
    ids=["unsaid", "keep", "drop"],
)
def test_options_of_the_disk(line: str, keep: bool | None) -> None:
    assert parse(line.split()).keep is keep


@pytest.mark.parametrize("line", ["--torh 7.1.0", "--keep-envs --drop-envs", "stray"])
def test_a_wrong_option_exits_with_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(line.split())
    assert caught.value.code == 2
    assert "usage: nox -s matrix --" in capsys.readouterr().err


def test_pytest_arguments_of_a_row_and_of_others() -> None:
    row, other = Release(version="7.1.0"), Release(version="installed", stable=False)
    start = ["-m", "pytest", "--pyargs", "canishard.checks", "-n", "auto"]
    assert campaign.pytest_arguments(row, ["-x"]) == [
        *start, "--release", "7.1.0", "--record", "matrix/results", "-x"
    ]  # fmt: skip
    assert campaign.pytest_arguments(other, []) == [*start, "--record", ".canishard/results"]


def test_all_releases_are_walked(nox: FakeNox, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-k", "fsdp2"], nox.root, nox) == 0
    assert nox.ran == VERSIONS
    assert nox.commands[0][nox.commands[0].index("-s") :] == [
        "-s", "checks(7.1.0)", "--", "--summary", str(nox.root / ".canishard/summaries/7.1.0.json"),
        "--backend=gloo", "--device=cpu", "-kfsdp2",
    ]  # fmt: skip
    said = capsys.readouterr().out
    assert "3 of 3 releases to install, torch from https://example.org/cpu; about 4.5 GB needed" in said
    assert "release 3 of 3 · 7.3.0 · installing, then checking · so far 6 cells, 2 of them no pass" in said
    assert "9 cells measured, 0 taken from what this machine measured before." in said


def test_an_unknown_release_is_one_line(nox: FakeNox, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--torch", "7.9.0"], nox.root, nox) == 2
    assert capsys.readouterr().err.startswith("--torch 7.9.0: unknown release. Known: 7.1.0, 7.2.0, 7.3.0;")
    assert nox.ran == []


def test_a_failed_install_is_infra_and_the_others_go_on(
    nox: FakeNox, capsys: pytest.CaptureFixture[str]
) -> None:
    nox.fails["7.2.0"] = (
        1,
        "nox > Command uv pip install failed with exit code 1:\nno wheel\n\nnox > Session failed.",
    )
    assert main([], nox.root, nox) == 11
    assert nox.ran == VERSIONS
    assert "7.2.0: infra: no wheel\n" in capsys.readouterr().out
    # What was half installed is not built upon.
    assert sorted(path.name for path in nox.envs.iterdir()) == ["checks-7-1-0", "checks-7-3-0"]


def test_what_cannot_be_measured_leaves_its_reason_until_it_can(nox: FakeNox) -> None:
    nox.fails["7.2.0"] = (1, "nox > Command uv pip install failed with exit code 1:\nno wheel\n")
    nox.says["7.3.0"] = {"infra": "torch cannot be imported", "exit_code": 11}
    assert main(["--device", "cuda"], nox.root, nox) == 11
    found = unmeasured.load(nox.root / "matrix")
    assert [(one.release, one.python, one.device, one.reason) for one in found] == [
        ("7.2.0", "3.11", "cuda", "no wheel"),
        ("7.3.0", "3.11", "cuda", "torch cannot be imported"),
    ]
    nox.fails.clear()
    nox.says.clear()
    assert main(["--device", "cuda"], nox.root, nox) == 0
    assert unmeasured.load(nox.root / "matrix") == []


def test_a_changed_cell_is_named_and_outranks_infra(nox: FakeNox, capsys: pytest.CaptureFixture[str]) -> None:
    change = {"id": "a.b", "world_size": 2, "change": "regressed", "old": "pass", "new": "error"}
    nox.says["7.1.0"] = {"changes": [change], "exit_code": 10}
    nox.says["7.2.0"] = {"infra": "torch cannot be imported", "exit_code": 11}
    assert main([], nox.root, nox) == 10
    said = capsys.readouterr().out
    assert "7.1.0: regressed: a.b on 2 ranks: pass -> error\n" in said
    assert "7.2.0: infra: torch cannot be imported\n" in said


def test_a_selection_of_nothing_ends_the_walk(nox: FakeNox, capsys: pytest.CaptureFixture[str]) -> None:
    nox.fails["7.1.0"] = (5, "nox > python -m pytest --pyargs canishard.checks\n")
    assert main(["-k", "nothing"], nox.root, nox) == 5
    assert nox.ran == ["7.1.0"]
    assert capsys.readouterr().err == "no case fits --backend=gloo --device=cpu -knothing\n"


def test_ctrl_c_ends_the_walk_and_keeps_what_was_measured(
    nox: FakeNox, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    nox.hooks["7.2.0"] = interrupt
    assert main([], nox.root, nox) == 130
    said = capsys.readouterr().out
    assert "Stopped in release 2 of 3; what was measured is kept." in said
    assert "3 cells measured" in said
    del nox.hooks["7.2.0"]
    assert main([], nox.root, nox) == 0
    assert nox.ran == ["7.1.0", "7.2.0", "7.2.0", "7.3.0"]


def test_what_has_not_changed_is_not_run_again(nox: FakeNox, capsys: pytest.CaptureFixture[str]) -> None:
    main([], nox.root, nox)
    shutil.rmtree(nox.envs)
    capsys.readouterr()
    assert main([], nox.root, nox) == 0
    assert nox.ran == VERSIONS
    said = capsys.readouterr().out
    assert "Nothing changed: 0 cells measured, 9 taken from what this machine measured before." in said
    assert "to install" not in said
    assert main(["--fresh"], nox.root, nox) == 0
    assert nox.ran == VERSIONS * 2
    assert "--fresh" in nox.commands[-1]


def edit_check(nox: FakeNox) -> None:
    (nox.root / "src" / "canishard" / "check.py").write_text("one = 2\n", encoding="utf-8")


def comment_check(nox: FakeNox) -> None:
    text = '"""It says one."""\n\n# Why not?\none = 1  # because\n'
    (nox.root / "src" / "canishard" / "check.py").write_text(text, encoding="utf-8")


def edit_report(nox: FakeNox) -> None:
    (nox.root / "src" / "canishard" / "report.py").write_text("one = 2\n", encoding="utf-8")


def edit_record(nox: FakeNox) -> None:
    (nox.root / "matrix" / "results" / "7.2.0.json").write_text("[]", encoding="utf-8")


def lose_evidence(nox: FakeNox) -> None:
    (nox.root / "matrix" / "results" / "7.2.0.evidence.json").touch()


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (edit_check, VERSIONS),
        (comment_check, []),
        (edit_report, []),
        (edit_record, ["7.2.0"]),
        (lose_evidence, ["7.2.0"]),
    ],
)
def test_what_has_changed_is_run_again(
    nox: FakeNox, change: Callable[[FakeNox], None], again: list[str]
) -> None:
    main([], nox.root, nox)
    change(nox)
    main([], nox.root, nox)
    assert nox.ran == [*VERSIONS, *again]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GLOO_SOCKET_IFNAME", "nosuchif"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        (install.INDEX_VARIABLE, "https://example.org/cu128"),
        ("PIP_FIND_LINKS", "/wheels"),
        ("UV_FIND_LINKS", "/wheels"),
        ("PIP_INDEX_URL", "https://example.org/simple"),
        ("UV_DEFAULT_INDEX", "https://example.org/simple"),
    ],
)
def test_what_can_change_a_result_is_run_again(
    nox: FakeNox, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    main(["--torch", "7.1.0"], nox.root, nox)
    monkeypatch.setenv("UNRELATED", "1")
    main(["--torch", "7.1.0"], nox.root, nox)
    assert nox.ran == ["7.1.0"]

    monkeypatch.setenv(name, value)
    main(["--torch", "7.1.0"], nox.root, nox)
    assert nox.ran == ["7.1.0"] * 2


def test_other_devices_pins_or_another_python_are_run_again(
    nox: FakeNox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def row(**more: Any) -> None:
        release = Release(version="7.1.0", ci=True, **{"python": "3.11", "pins": ("numpy<2",), **more})
        monkeypatch.setattr(releases, "load", lambda: [release])
        main([], nox.root, nox)

    row()
    row(released="2026-01-01")
    assert len(nox.ran) == 1
    row(pins=("numpy<2", "setuptools"))
    assert len(nox.ran) == 2
    row(python="3.12")
    assert len(nox.ran) == 3
    row()
    monkeypatch.setattr(install, "gpus", lambda: ["GPU 0: one"])
    row()
    monkeypatch.setattr(install, "gpus", lambda: ["GPU 0: one", "GPU 1: one"])
    row()
    assert len(nox.ran) == 6


@pytest.mark.parametrize("status", ["not_run", "flaky", "infra"])
def test_what_settled_nothing_is_run_again(nox: FakeNox, status: str) -> None:
    nox.says["7.1.0"] = {"counts": {"pass": 2, status: 1}}
    main(["--torch", "7.1.0"], nox.root, nox)
    main(["--torch", "7.1.0"], nox.root, nox)
    assert nox.ran == ["7.1.0"] * 2


@pytest.mark.parametrize("options", [["--backend-module", "theirs"], ["--", "--checks", "own_checks.py"]])
def test_code_that_changes_without_a_trace_is_run_again(nox: FakeNox, options: list[str]) -> None:
    main(["--torch", "7.1.0", *options], nox.root, nox)
    main(["--torch", "7.1.0", *options], nox.root, nox)
    assert nox.ran == ["7.1.0"] * 2


def test_a_record_of_a_dirty_tree_is_made_anew_once_all_is_committed(
    nox: FakeNox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dirty in (True, True, False, False):
        monkeypatch.setattr(suite, "is_dirty", lambda _, dirty=dirty: dirty)
        main(["--torch", "7.1.0"], nox.root, nox)
    assert nox.ran == ["7.1.0"] * 2


def test_another_selection_or_an_infra_is_run_again(nox: FakeNox) -> None:
    nox.says["7.1.0"] = {"infra": "canary is hang", "exit_code": 11}
    main(["--torch", "7.1.0"], nox.root, nox)
    main(["--torch", "7.1.0"], nox.root, nox)
    nox.says.clear()
    main(["--torch", "7.1.0"], nox.root, nox)
    main(["--torch", "7.1.0", "-k", "dcp"], nox.root, nox)
    main(["--torch", "7.1.0"], nox.root, nox)
    assert len(nox.ran) == 4


def test_dropped_environments_are_removed_with_their_cache(nox: FakeNox) -> None:
    assert main(["--drop-envs", "--torch", "7.1.0"], nox.root, nox) == 0
    once = nox.envs / "once-7.1.0"
    assert nox.commands[0][nox.commands[0].index("--envdir") + 1] == str(once)
    assert nox.environs[0]["UV_CACHE_DIR"] == str(once / "uv-cache")
    assert list(nox.envs.iterdir()) == []


def test_kept_environments_use_the_installers_own_cache(nox: FakeNox) -> None:
    main(["--torch", "7.1.0"], nox.root, nox)
    assert nox.environs[0].get("UV_CACHE_DIR") == os.environ.get("UV_CACHE_DIR")
    assert nox.environs[0][install.INDEX_VARIABLE] == "https://example.org/cpu"
    assert (nox.envs / "checks-7-1-0").is_dir()


def test_a_pre_release_gets_a_session_of_its_own(nox: FakeNox) -> None:
    assert main(["--torch", "7.4.0rc1"], nox.root, nox) == 0
    said = nox.environs[0][install.TORCH_VARIABLE]
    assert nox.ran == [said] == ["7.4.0rc1"]
    extra = campaign.extra_releases(releases.load(), {install.TORCH_VARIABLE: said})
    assert [release.version for release in extra] == ["7.4.0rc1"]
    assert campaign.extra_releases(releases.load(), {}) == []


def test_installed_is_always_run(nox: FakeNox) -> None:
    main(["--torch", "installed"], nox.root, nox)
    main(["--torch", "installed"], nox.root, nox)
    assert nox.ran == ["installed", "installed"]


def test_no_room_is_said_before_anything_is_installed(
    nox: FakeNox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(0, 0, install.GB))
    assert main([], nox.root, nox) == 14
    assert "GB are free: make room" in capsys.readouterr().err
    assert nox.ran == []


def test_the_time_left_is_known_from_earlier_runs(nox: FakeNox, capsys: pytest.CaptureFixture[str]) -> None:
    kept = nox.root / ".canishard" / "seconds.json"
    kept.parent.mkdir()
    kept.write_text(json.dumps(dict.fromkeys(VERSIONS, 300.0)), encoding="utf-8")
    main([], nox.root, nox)
    said = capsys.readouterr().out
    assert "release 1 of 3 · 7.1.0 · installing, then checking · about 15 min left" in said
    assert "about 5 min left" in said


def test_a_python_that_cannot_be_had_is_one_line_and_the_others_go_on(
    nox: FakeNox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Release(version="7.1.0", python="3.11", also_python=("3.12", "3.13"), ci=True)
    monkeypatch.setattr(releases, "load", lambda: [row])
    missing = "Session checks(7.1.0-py3.12) failed: Python interpreter 3.12 not found."
    nox.fails["7.1.0-py3.12"] = (1, f"nox > Running session checks(7.1.0-py3.12)\nnox > {missing}\n")

    assert main([], nox.root, nox) == 11
    assert nox.ran == ["7.1.0", "7.1.0-py3.12", "7.1.0-py3.13"]
    told = [line for line in capsys.readouterr().out.splitlines() if ": infra: " in line]
    assert told == ["7.1.0-py3.12: infra: Python interpreter 3.12 not found"]

    assert main([], nox.root, nox) == 11
    assert nox.ran[3:] == ["7.1.0-py3.12"], "what is known of one Python is not taken for another"
