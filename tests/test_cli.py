from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from made_up import outcome, record

from canishard import files, report
from canishard import record as record_files
from canishard.answers import dataset
from canishard.cli import main


def canishard(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "canishard", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.torch
def test_json_on_stdout_is_the_record_and_nothing_else(tmp_path: Path) -> None:
    done = canishard(tmp_path, "run", "--json", "-", "--case", "canary.*", "--spawn-sample", "0")

    assert done.returncode == 0, done.stderr
    assert [cell["status"] for cell in json.loads(done.stdout)["cells"]] == ["pass", "pass"]
    assert "2 pass" in done.stderr


@pytest.mark.torch
def test_run_without_a_record_is_a_plain_test_run(tmp_path: Path) -> None:
    # As strict as a project can be: what pytest has to say of us there would end the run.
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    done = canishard(tmp_path, "run", "--case", "canary.*", "--world-size", "2", "--spawn-sample", "0", "-q")

    assert done.returncode == 0, done.stderr
    assert "1 pass" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["report", "--nonsense"], ["explain", "a.x"], ["table", "--format", "pdf"]],
)
def test_a_bad_command_line_is_told_and_exits_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert "canishard" in capsys.readouterr().err


def data_set(folder: Path) -> Path:
    """Return the file of a data set whose table is larger than a pipe holds, with text that is not ASCII."""
    message = f"RuntimeError: caf\u00e9 {'x' * 270}"
    cells = [
        outcome(f"a.x[n={number}]", status="error", message=f"{message}{number}") for number in range(900)
    ]
    path = folder / "canishard.json"
    path.write_bytes(dataset.encode(dataset.build([record(*cells)], [], [], {})))
    return path


def test_a_reader_that_has_enough_gets_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    arguments = ["table", "--data", str(data_set(tmp_path))]
    # Unbuffered, Python takes a write that was cut short for a whole one, and there is nothing to be told.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-m", "canishard", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as running:
        os.close(write)
        os.read(read, 100)
        os.close(read)
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (141, "")


@pytest.mark.parametrize("arguments", [["table"], ["explain", "a.x[n=1]", "--torch", "2.8"]])
def test_a_terminal_that_writes_ascii_only_gets_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = canishard(tmp_path, *arguments, "--data", str(data_set(tmp_path)))
    assert (done.returncode, done.stderr) == (0, "")
    assert "caf\\xe9" in done.stdout
    assert done.stdout.isascii()


def test_report_writes_what_is_committed_and_builds_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(files.matrix_dir(), tmp_path / "matrix", ignore=lambda *_: ["results"])
    found = record(outcome("a.x"))
    record_files.save(found, tmp_path / "matrix" / "results" / f"{found.name}.json")
    monkeypatch.setattr(files, "matrix_dir", lambda: tmp_path / "matrix")

    assert main(["report", "--check"]) == 13
    assert "not what matrix/ gives: reports/COMPATIBILITY.md, " in capsys.readouterr().err
    assert main(["report"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "written: reports/COMPATIBILITY.md" in said
    page = tmp_path / report.SITE / "index.html"
    assert said[-1].endswith(f"files written: open {page.as_uri()}")
    assert page.exists()

    shutil.rmtree(tmp_path / report.SITE)
    assert main(["report", "--check"]) == 0
    assert not (tmp_path / report.SITE).exists()
