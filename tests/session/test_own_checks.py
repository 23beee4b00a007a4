"""``--checks``: a project's own checks beside ours, as files, folders and modules."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from canishard.errors import CanishardError, ConfigurationError, InfraError
from canishard.launch import Launcher, OwnChecks, Rules, Where
from canishard.launch.outcome import Case
from canishard.session import find_checks

torch_needed = pytest.mark.torch
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

HEAD = "import torch\nfrom canishard.check import check\n"
FINE = f"""{HEAD}
@check(feature="ours", params={{"factor": [1, 2]}}, world_sizes=(2,))
def scaled(context, factor):
    \"\"\"Ones, scaled.\"\"\"
    import acme
    ones = torch.ones(2)
    context.equal("ones", ones * factor * acme.SCALE, ones, wrong={{"doubled": ones * 2}})
"""


def write(folder: Path, **files: str) -> Path:
    """Write modules, where ``__`` stands for a folder; return the folder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def package(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("", encoding="utf-8")


# ---- what an argument stands for -----------------------------------------------------------------


def test_files_folders_and_modules(tmp_path: Path) -> None:
    write(tmp_path, my__one="", my__two="", my___helper="", my__conftest="", lone="")
    package(tmp_path / "inner" / "deep")
    package(tmp_path / "inner")
    write(tmp_path, inner__deep__three="")

    own = find_checks(["lone.py", "my", str(tmp_path / "inner" / "deep"), "some.module"], tmp_path)

    assert own.modules == {
        "--checks lone.py": {"lone": f"{tmp_path}/lone.py"},
        "--checks my": {"one": f"{tmp_path}/my/one.py", "two": f"{tmp_path}/my/two.py"},
        f"--checks {tmp_path}/inner/deep": {"inner.deep.three": f"{tmp_path}/inner/deep/three.py"},
        "--checks some.module": {"some.module": ""},
    }
    assert own.names == ["lone", "one", "two", "inner.deep.three", "some.module"]
    assert list(own.path)[:2] == [str(tmp_path), str(tmp_path / "my")]


def test_without_the_option_there_is_nothing(tmp_path: Path) -> None:
    assert find_checks([], tmp_path) == OwnChecks()


def test_a_file_said_twice_is_one_module(tmp_path: Path) -> None:
    write(tmp_path, my__one="")

    assert find_checks(["my", "my/one.py"], tmp_path).names == ["one"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nowhere/checks.py"],
            "--checks nowhere/checks.py: no such file or folder, and no module's dotted name",
        ),
        (["checks.py"], "--checks checks.py: no such file or folder"),
        (["empty"], "--checks empty: the folder holds no file of checks"),
        (
            ["notes.txt"],
            "--checks notes.txt: expected a .py file, a folder of them, or a module's dotted name",
        ),
        (["my/collectives.py"], "--checks my/collectives.py: collectives is a family of canishard's own"),
        (["my"], "--checks my: collectives is a family of canishard's own; give collectives.py another name"),
        (["a/one.py", "b"], "both be module one; give one another name"),
        (["a/one-two.py"], "one-two is no name by which Python imports; give it another name"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_cannot_be_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    write(tmp_path, my__collectives="", a__one="", b__one="")
    (tmp_path / "a" / "one-two.py").write_text("", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")

    with pytest.raises(ConfigurationError) as caught:
        find_checks(arguments, tmp_path)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- what a child with torch loaded says of them -------------------------------------------------

Collect = Callable[[str, str], list[Case]]


@pytest.fixture(scope="module")
def collect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collect]:
    """Return what asks one server for the cases of an argument: each answer comes from a fresh child."""
    folder = tmp_path_factory.mktemp("own")
    rules = Rules()
    with Launcher(Where(), rules, own=OwnChecks({}, [str(folder)])) as launcher:

        def of(name: str, text: str) -> list[Case]:
            write(folder, **{name: text})
            launcher.own = find_checks([f"{name.replace('__', '/')}.py"], folder)
            return launcher.cases()

        yield of


CHECK = '{HEAD}\n@check(feature="f"{options})\ndef works(context{more}):\n    """It works."""\n'


def declared(options: str = "", more: str = "") -> str:
    return CHECK.format(HEAD=HEAD, options=f", {options}" if options else "", more=more)


@torch_needed
def test_own_cases_come_after_ours_which_stay_as_they_are(collect: Collect) -> None:
    cases = collect("mine", declared())
    others = collect("mine2", declared("world_sizes=(3,)"))

    own = [case for case in cases if case.module == "mine"]
    assert [(case.id, case.world_size, case.family) for case in own] == [
        ("mine.works", 2, "mine"),
        ("mine.works", 4, "mine"),
    ]
    assert cases[-2:] == own
    ours = [(case.key, case.digest) for case in cases if case.module.startswith("canishard.")]
    assert ours == [(case.key, case.digest) for case in others if case.module.startswith("canishard.")]
    assert len(own[0].digest) == 16


TABLE = """
from canishard.check import Row
TABLE = {"plus": Row(recipe=lambda x: x + 1, title="Plus", where={"n": 1}), "twice": lambda x: x * 2}
"""


@torch_needed
def test_rows_of_an_own_table_are_each_measured_for_themselves(collect: Collect) -> None:
    text = declared(
        "rows={'op': TABLE}, params={'n': (1, 2)}, exclude=[{'n': 2, 'world_size': 4}]", ", recipe, op, n"
    )
    first = {case.key: case for case in collect("tabled", f"{TABLE}{text}") if case.module == "tabled"}
    again = collect("tabled2", f"{TABLE.replace('x * 2', 'x * 3')}{text}")
    mended = {
        (case.id.replace("2.", ".", 1), case.world_size): case for case in again if case.module == "tabled2"
    }

    assert {(row, size): case.title for (row, size), case in first.items()} == {
        ("tabled.works[op=plus,n=1]", 2): "Plus",
        ("tabled.works[op=plus,n=1]", 4): "Plus",
        ("tabled.works[op=twice,n=1]", 2): "It works",
        ("tabled.works[op=twice,n=1]", 4): "It works",
        ("tabled.works[op=twice,n=2]", 2): "It works",
    }
    same = {key[0] for key, case in first.items() if mended[key].digest == case.digest}
    assert same == {"tabled.works[op=plus,n=1]"}


FAULTS = [
    ("gone", "import no_such_module\n", InfraError, "gone.py: cannot be imported: ModuleNotFoundError: No module named"),
    ("old", "from torch import no_such_name\n", InfraError, "old.py: cannot be imported: ImportError: cannot import"),
    ("raising", "\nraise ValueError('no\\ngood')\n", ConfigurationError, "ValueError: no good (raising.py, line 2)"),
    ("leaving", "import sys\nsys.exit(3)\n", ConfigurationError, "leaving.py: cannot be imported: SystemExit: 3"),
    ("misspelt", "def works(:\n", ConfigurationError, "misspelt.py: cannot be imported: SyntaxError: invalid syntax"),
    ("nothing", "import torch\n", ConfigurationError, "nothing.py: declares no check; a check is a function with"),
    ("types", declared(), ConfigurationError, "the name types stands for "),
    ("untitled", f"{HEAD}@check(feature='f')\ndef works(c): pass\n", ConfigurationError, "a check needs a docstring"),
    ("twice", declared() + declared(), ConfigurationError, "twice.works: declared twice"),
    ("starred", f"from math import *\n{declared()}", ConfigurationError, "starred.py:1: from math import *: nobody"),
    ("odd", declared("params={'n': (1,)}, exclude=[{'n': 2}]", ", n"), ConfigurationError, "n=2: allowed: 1"),
    ("grown", "T = dict(a=1)\n" + declared("rows={'op': T}", ", r, op"), ConfigurationError, "T: a table of rows is a"),
    ("odd", declared('params={"x": ["a b"]}', ", x"), ConfigurationError, "'odd.works[x=a b]' is no id: no blank"),
    ("tensor", declared('params={"x": [torch.ones(1)]}', ", x"), ConfigurationError, "x=tensor([1.]): expected texts"),
    ("sizes", declared("world_sizes=(0,)"), ConfigurationError, "world_sizes=(0,): expected numbers of ranks"),
]  # fmt: skip


@torch_needed
@pytest.mark.parametrize("row", FAULTS, ids=[row[0] for row in FAULTS])
def test_a_module_that_is_no_good_is_one_line(
    collect: Collect, row: tuple[str, str, type[CanishardError], str]
) -> None:
    name, text, kind, message = row

    with pytest.raises(CanishardError) as caught:
        collect(name, text)

    assert (type(caught.value), message in str(caught.value)) == (kind, True), str(caught.value)
    assert str(caught.value).startswith(f"--checks {name}.py: ")
    assert "\n" not in str(caught.value)


# ---- as people call it ---------------------------------------------------------------------------


def canishard(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "canishard", "run", "--spawn-sample", "0", *arguments],
        cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@torch_needed
def test_own_rows_stand_beside_ours_in_the_record_that_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, my__mine=FINE, my__acme="SCALE = 1\n")
    release = version("torch").partition("+")[0]
    options = ("--case", "canary.*", "--world-size", "2", "--record", "out.json", "--release", release)

    ours = canishard(tmp_path, *options)
    both = canishard(tmp_path, *options, "--checks", "my/mine.py", "--case", "mine.*", "-n", "2", "-v")
    cells = json.loads((tmp_path / "out.json").read_text())["cells"]
    write(tmp_path, my__acme="SCALE = 2\n")
    after = canishard(tmp_path, *options, "--checks", "my/mine.py", "--case", "mine.*")

    assert [ours.returncode, both.returncode] == [0, 0], both.stdout + both.stderr
    assert "canishard: added: mine.scaled[factor=2] (2 ranks): absent -> wrong (doubled)" in both.stdout
    assert "canishard.checks::mine.scaled[factor=1][ranks=2]" in both.stdout
    assert "2 cases measured, 1 known already" in both.stdout
    assert [(cell["id"], cell["status"], cell.get("deviation")) for cell in cells] == [
        ("canary.all_reduce", "pass", None),
        ("mine.scaled[factor=1]", "pass", None),
        ("mine.scaled[factor=2]", "wrong", "doubled"),
    ]
    # What they test is the project's own and may change without a trace: they are always measured.
    assert after.returncode == 10, after.stdout + after.stderr
    assert "2 cases measured, 1 known already" in after.stdout
    assert "canishard: newly_wrong: mine.scaled[factor=1] (2 ranks): pass -> wrong (doubled)" in after.stdout


@torch_needed
def test_without_a_record_own_rows_fail_with_their_evidence_and_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path, mine=FINE, acme="SCALE = 1\n")

    done = canishard(tmp_path, "--checks", "mine", "--case", "mine.*")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "wrong (doubled): ones: got [2, 2]" in done.stdout
    assert re.search(r"1 failed.* 1 pass ", done.stdout)
    assert not list(tmp_path.glob("*.json"))


@torch_needed
def test_spawned_ranks_find_own_checks_and_what_lies_beside_them(tmp_path: Path) -> None:
    write(tmp_path, my__mine=FINE, my__acme="SCALE = 1\n")

    done = canishard(
        tmp_path, "--checks", "my/mine.py", "--case", "mine.scaled[factor=1]", "--start-method", "spawn"
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " 1 pass " in done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one", "two"])
def test_a_path_that_does_not_exist_ends_the_run_in_one_line(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    done = canishard(tmp_path, "--checks", "my/checks.py", "--record", "out.json", *workers)

    assert done.returncode == 2, done.stdout + done.stderr
    said = "canishard: --checks my/checks.py: no such file or folder, and no module's dotted name"
    assert [said in line for line in (done.stdout + done.stderr).splitlines()].count(True) == 1
    assert "Traceback" not in done.stdout + done.stderr


@torch_needed
@pytest.mark.parametrize(
    ("argument", "code", "message"),
    [
        ("leaving.py", 2, "--checks leaving.py: cannot be imported: SystemExit: 3 (leaving.py, line 2)"),
        ("nowhere", 2, "--checks nowhere: neither a file or folder, nor a module that can be imported here"),
        (
            "needy.py",
            11,
            "--checks needy.py: cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_ends_the_run_in_one_line(
    tmp_path: Path, argument: str, code: int, message: str
) -> None:
    write(tmp_path, needy="import no_such_module\n", leaving="import sys\nsys.exit(3)\n")

    done = canishard(tmp_path, "--checks", argument)

    assert done.returncode == code, done.stdout + done.stderr
    assert [message in line for line in (done.stdout + done.stderr).splitlines()].count(True) == 1
    assert "Traceback" not in done.stdout + done.stderr
