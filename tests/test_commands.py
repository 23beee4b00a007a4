"""The commands that answer from the data set, as they are typed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from answers.test_dataset import CATALOGUE, MENDED, ROW
from made_up import canaries, outcome, record
from report.test_terminal import made_up

from canishard import cli, files
from canishard import record as record_files
from canishard.answers import dataset
from canishard.catalogue import renamed


class Typed:
    """Runs commands on a data set of its own."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.capsys = path, capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = cli.main([*arguments, "--data", str(self.path)])
        said = self.capsys.readouterr()
        return code, said.out + said.err


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    path = tmp_path / "canishard.json"
    path.write_bytes(dataset.encode(made_up()))
    return Typed(path, capsys)


def test_explain(typed: Typed) -> None:
    code, said = typed("explain", ROW, "--torch", "2.8", "--backend", "gloo")
    assert code == 0
    assert f"Measured there: {MENDED}: yes" in said
    assert len(said.splitlines()) < 10


def test_explain_one_number_of_ranks(typed: Typed) -> None:
    _, said = typed("explain", ROW, "--torch", "2.8", "--world-size", "2")
    assert "wrong (summed) on 2.8.0 with 2 ranks\n" in said


def test_diff(typed: Typed) -> None:
    code, said = typed("diff", "2.8", "2.9.1+cpu", "--family", "fsdp2")
    assert (code, said.splitlines()[0]) == (0, "torch 2.8.0 -> 2.9.1, gloo on cpu: 4 cells changed")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], ["2.9.1", "2.8.0", "2.7.1", "2.6.0"]),
        (["--torch", ">=2.7,<2.9"], ["2.8.0", "2.7.1"]),
        (["--torch", "2.8", "--torch", "2.6.0"], ["2.8.0", "2.6.0"]),
    ],
)
def test_table_has_the_columns_that_are_asked_for(
    typed: Typed, arguments: list[str], wanted: list[str]
) -> None:
    code, said = typed("table", "--family", "fsdp2", *arguments)
    assert code == 0
    assert said.splitlines()[2].split() == ["row", "ranks", *wanted]


@pytest.mark.parametrize(("kind", "wanted"), [("html", "<table>"), ("github", "|---"), ("plain", "---  ---")])
def test_table_formats(typed: Typed, kind: str, wanted: str) -> None:
    assert wanted in typed("table", "--format", kind)[1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--torch", ">=2.9"], 0),
        (["--torch", ">=2.8"], 10),
        (["--torch", "2.7.0"], 10),
        (["--torch", "2.7.0", "--allow-unknown"], 0),
        (["--torch", "2.8.0", "--allow-unknown"], 10),
        (["--torch", ">=2.9", "--world-size", "8"], 10),
        (["--torch", ">=2.9", "--all-patches"], 0),
    ],
)
def test_check_exits_with_0_where_all_releases_hold(typed: Typed, arguments: list[str], code: int) -> None:
    assert typed("check", "--needs", "fsdp2.gradients", *arguments)[0] == code


def test_check_takes_several_needs(typed: Typed) -> None:
    _, said = typed("check", "--needs", f"fsdp2,{MENDED}", "--needs", "b.x", "--torch", "2.8.0")
    assert said.splitlines()[0] == "2.8.0  blocked (1 of 3 rows)"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            ["explain", "fsdp2.gradients", "--torch", "2.8"],
            "no such row; did you mean fsdp2.gradients[reduce=def",
        ),
        (["explain", ROW, "--torch", "new"], "torch new: no version; allowed: 2.8"),
        (
            ["diff", "2.8.0", "2.7.0"],
            "torch 2.7.0 was not measured with gloo on cpu; measured: 2.6.0, 2.7.1, ",
        ),
        (
            ["diff", "2.8.0", "2.9.1", "--backend", "mpi"],
            "torch 2.8.0 was not measured with mpi on cpu; measured: no",
        ),
        (
            ["diff", "2.8.0", "2.9.1", "--family", "fsdp"],
            "--family fsdp: no such family; did you mean fsdp2? allowed:",
        ),
        (["table", "--family", "zz"], "--family zz: no such family; allowed: fsdp2, b"),
        (["table", "--backend", "mpi"], "nothing was measured with mpi on cpu; measured: gloo on cpu"),
        (["table", "--torch", "2.7.0"], "torch 2.7.0 was not measured with gloo on cpu; measured: "),
        (["table", "--torch", "==2.7.0"], "--torch ==2.7.0: none of these was measured; measured: 2.6.0, "),
        (
            ["reproduce", "collectives.all_reduce[op=average]"],
            "collectives.all_reduce[op=average]: no such row; did you mean collectives.all_reduce[op=avg] or ",
        ),
        (["check", "--needs", "fsdp3"], "need fsdp3: stands for no row; did you mean fsdp2"),
        (["check", "--needs", "fsdp2", "--torch", ">=9"], "--torch >=9: matches no release. Known: "),
    ],
)
def test_what_is_the_users_to_mend_is_one_line(typed: Typed, arguments: list[str], wanted: str) -> None:
    code, said = typed(*arguments)
    assert code == 2
    assert wanted in said
    assert len(said.splitlines()) == 1


def test_a_data_set_of_another_schema(typed: Typed) -> None:
    typed.path.write_text('{"schema": 7}', encoding="utf-8")
    code, said = typed("table")
    assert (code, said) == (
        12,
        "canishard: canishard.json: schema: is 7, this canishard reads 1 only; install a newer canishard\n",
    )


def test_a_data_set_in_which_nothing_was_measured(typed: Typed) -> None:
    typed.path.write_bytes(dataset.encode(dataset.build([], ["2.8.0"], [], CATALOGUE)))
    assert typed("table")[1] == "canishard: nothing was measured with gloo on cpu; measured: nothing\n"
    assert (
        "was not measured with gloo on cpu, nor with anything" in typed("explain", ROW, "--torch", "2.8")[1]
    )


def test_a_column_of_a_moving_channel_is_in_the_whole_table(typed: Typed) -> None:
    records = [record(outcome(ROW)), record(outcome(ROW), channel="nightly")]
    typed.path.write_bytes(dataset.encode(dataset.build(records, ["2.8.0"], [], CATALOGUE)))
    assert typed("table")[1].splitlines()[2].split() == ["row", "ranks", "nightly", "2.8.0"]


def test_doctor_is_handed_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    called: dict[str, Any] = {}
    fake = ModuleType("canishard.answers.doctor")

    def main(**options: Any) -> int:
        called.update(options)
        return 10

    monkeypatch.setattr(fake, "main", main, raising=False)
    monkeypatch.setitem(sys.modules, "canishard.answers.doctor", fake)
    monkeypatch.setattr("canishard.answers.doctor", fake, raising=False)
    assert cli.main(["doctor", "--backend", "mpi", "-k", "fsdp2"]) == 10
    assert called == {"backend": "mpi", "device": "cpu", "arguments": ["-k", "fsdp2"]}


def test_merge_tells_what_became_of_each_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix, jobs = tmp_path / "matrix", tmp_path / "jobs"
    monkeypatch.setattr(files, "matrix_dir", lambda: matrix)
    old, same = record(*canaries(), outcome(ROW)), record(*canaries(), channel="2.9.1")
    for stored in (old, same):
        record_files.save(stored, matrix / "results" / f"{stored.name}.json")
    measured = record(*canaries(), outcome(ROW, status="hang"))
    for found in (measured, same, record(*canaries(), channel="2.10.0")):
        record_files.save(found, jobs / found.name / f"{found.name}.json")

    assert cli.main(["merge", str(jobs)]) == 0
    assert [
        line.partition("-gloo-cpu-cp311-linux-x86_64")[::2] for line in capsys.readouterr().out.splitlines()
    ] == [
        ("torch-2.10.0-cuda-nodriver", ": new, 2 cells"),
        ("torch-2.8.0-cuda-nodriver", ": 1 cells changed"),
        (f"  regressed: {ROW} (2 ranks): pass -> hang", ""),
        ("torch-2.9.1-cuda-nodriver", ": the same"),
    ]
    assert cli.main(["merge", str(tmp_path / "none")]) == 5


# ---- reproduce -----------------------------------------------------------------------------------

GRADIENTS = "fsdp2.gradients[reduce=default]"


def test_reproduce_prints_a_script(typed: Typed) -> None:
    code, said = typed("reproduce", GRADIENTS)
    assert code == 0
    head = ast.get_docstring(ast.parse(said)) or ""
    assert f"This is {GRADIENTS}, a row of canishard's tables." in head
    assert "    wrong (summed) with 2 and 4 ranks: 2.8.0" in head


def test_reproduce_writes_a_file_and_says_how_to_run_it(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "with blank" / "script.py"
    code, said = typed("reproduce", GRADIENTS, "-o", str(path))
    assert (code, said) == (0, f"python '{path}' --row '{GRADIENTS}' --ranks 2\n")
    assert path.read_text(encoding="utf-8") == typed("reproduce", GRADIENTS)[1]
    assert list(path.parent.iterdir()) == [path]


def test_reproduce_knows_the_id_that_a_row_had(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "load", lambda: {"fsdp2.old": GRADIENTS})
    assert f"This is {GRADIENTS}, a row" in typed("reproduce", "fsdp2.old")[1]


def test_reproduce_leaves_what_is_there_where_it_cannot_write(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    code, said = typed("reproduce", GRADIENTS, "-o", str(tmp_path / "folder"))
    assert (code, said) == (2, f"canishard: -o {tmp_path / 'folder'}: cannot be written: Is a directory\n")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
