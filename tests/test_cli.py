from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    done = canishard(tmp_path, "run", "--case", "canary.*", "--world-size", "2", "--spawn-sample", "0", "-q")

    assert done.returncode == 0, done.stderr
    assert "1 pass" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["report", "--nonsense"]])
def test_a_bad_command_line_is_told_and_exits_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert "canishard" in capsys.readouterr().err
