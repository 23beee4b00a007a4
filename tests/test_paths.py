"""Folders of any name: what is written below one is found there again, and commands get it as one word."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
from answers.test_published import made_up
from made_up import AWKWARD, canaries, full, record, saved

from canishard import files, releases
from canishard import record as record_files
from canishard.answers import dataset, published
from canishard.nightly import night, state, verdict
from canishard.nightly.state import NightVerdict
from canishard.walk import child, newest
from canishard.walk.measure import measure


@pytest.fixture(params=AWKWARD)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    path.mkdir()
    return path


def test_records_are_found_again(folder: Path) -> None:
    path = saved(folder, full())
    assert record_files.load(path) == full()
    assert record_files.load_all(folder) == [full()]


def test_data_files_are_found_again(folder: Path) -> None:
    files.replace(folder / "canishard.json", dataset.encode(made_up()))
    shutil.copy(files.matrix_dir() / "releases.toml", folder)
    assert published.load(folder / "canishard.json") == made_up()
    assert releases.load(folder / "releases.toml") == releases.load()
    assert sorted(path.name for path in folder.iterdir()) == ["canishard.json", "releases.toml"]


def test_the_list_of_releases_is_added_to_there(folder: Path) -> None:
    path = folder / "releases.toml"
    shutil.copy(files.matrix_dir() / "releases.toml", path)
    assert newest.update(path, ["2.99.0"], "2026-12-01") == ["2.99.0"]
    assert releases.load(path)[-1].version == "2.99.0"
    assert list(folder.iterdir()) == [path]


def test_a_night_is_found_again(folder: Path) -> None:
    found = verdict.without("2026-11-30", NightVerdict.INFRA, "no index", None, backend="gloo", device="cpu")
    confirmed = record(*canaries(), channel="nightly")
    night.write(folder / "out", found, confirmed)
    assert verdict.decode((folder / "out" / night.NIGHT_FILE).read_bytes()) == found
    assert night.confirmed_record(folder / "out", "gloo", "cpu") == confirmed
    assert state.load(folder / "none") == state.load(folder / "other")


def test_a_measurement_is_told_its_folder_in_one_word(folder: Path) -> None:
    said: list[str] = []

    def nox(command: Sequence[str], _environ: Mapping[str, str], log: Path) -> int:
        said.extend(command)
        saved(log.parent, full())
        return 0

    assert measure("checks(2.8.0)", folder / "out", folder, nox) == full()
    assert {str(folder / "out"), str(folder / "noxfile.py")} <= set(said)


@pytest.mark.skipif(os.name == "nt", reason="the guard is for process groups")
def test_a_command_runs_there(folder: Path) -> None:
    script = folder / "say.py"
    script.write_text("import sys; print(*sys.argv[1:])", encoding="utf-8")
    assert child.run_child([sys.executable, str(script), str(folder)], os.environ, folder / "log") == 0
    assert (folder / "log").read_text(encoding="utf-8").strip() == str(folder)


def run_there(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ |= {"HOME": str(folder)}
    command = [sys.executable, "-m", "canishard", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.torch
def test_a_run_there_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "".join(AWKWARD)
    folder.mkdir()
    asked = [f"--{option}={folder / option}" for option in ("json", "state", "summary")]

    asked += ["--release", version("torch").partition("+")[0]]  # Only then is something remembered.

    done = run_there(folder, "run", *asked, "--case", "canary.*", "--world-size", "2", "--spawn-sample", "1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert [cell["status"] for cell in json.loads((folder / "json").read_bytes())["cells"]] == ["pass"]
    assert json.loads((folder / "summary").read_text(encoding="utf-8"))["counts"] == {"pass": 1}
    assert any((folder / "state").iterdir())
