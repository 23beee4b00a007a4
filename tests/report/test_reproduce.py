"""A check's script stands alone, keeps hostile text inside its docstring, and shows what the record says."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_up
import pytest
from made_up import outcome

from canishard import catalogue, files, record
from canishard.catalogue import Entry
from canishard.errors import ConfigurationError
from canishard.facts import quirks
from canishard.launch import accounts, refusals, verdict
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.report import reproduce
from canishard.report.table import groups

ENTRIES = catalogue.load()
RECORDS = record.load_all(files.matrix_dir() / "results")
GRADIENTS = "fsdp2.gradients[reduce=default]"
FAMILIES = list({entry.family: entry.id for entry in reversed(ENTRIES.values())}.values())
"""The first row of each family."""


def cells_of(row: str) -> list[tuple[str, Outcome]]:
    return [(found.environment.channel, cell) for found in RECORDS for cell in found.cells if cell.id == row]


CHECKS = list({reproduce.name(entry): entry.id for entry in reversed(ENTRIES.values())}.values())
"""The first row of each check."""


@functools.cache
def script_of(row: str) -> str:
    return reproduce.script(reproduce.rows_of(ENTRIES[row], ENTRIES), cells_of(row))


# -- the text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", CHECKS)
def test_a_script_is_python_3_10_and_has_every_name_that_it_uses(row: str) -> None:
    tree = ast.parse(script_of(row), feature_version=(3, 10))

    defined: set[str] = set(dir(builtins)) | {"__name__"}
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            defined.add(node.name)
    assert used - defined == set()


@pytest.mark.parametrize("row", CHECKS)
def test_a_script_imports_torch_and_the_standard_library_alone(row: str) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(script_of(row))):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])

    assert imported - sys.stdlib_module_names == {"torch", *ENTRIES[row].packages}


@pytest.mark.parametrize("row", FAMILIES)
def test_the_check_stands_before_what_it_calls_and_all_else(row: str) -> None:
    text = script_of(row)

    assert ENTRIES[row].source in text
    check, comparison, runner = (
        text.index(part) for part in (ENTRIES[row].source, "# -- comparison", "# -- running it")
    )
    assert text.count("\n", 0, check) < 120
    assert check < comparison < runner


def test_nothing_is_left_of_what_is_meant_for_linters() -> None:
    assert not any(re.search(r"noqa|fmt:|TYPE_CHECKING", script_of(row)) for row in FAMILIES)


def test_the_head_says_how_to_run_it_and_what_was_seen_where() -> None:
    seen = [
        ("2.9.1", outcome(GRADIENTS, 2)),
        ("2.9.1", outcome(GRADIENTS, 4)),
        ("2.8.0", outcome(GRADIENTS, 2, "wrong", deviation="summed", message="got 2")),
        ("2.7.1", outcome(GRADIENTS, 2, "wrong", deviation="summed", message="got 2")),
    ]

    head = ast.get_docstring(ast.parse(reproduce.script([ENTRIES[GRADIENTS]], seen))) or ""

    assert head.startswith(f"{ENTRIES[GRADIENTS].title}.\n")
    assert "    python SCRIPT --ranks 2\n    torchrun --nproc-per-node 2 SCRIPT\n" in head
    assert head.endswith(
        "    pass with 2 and 4 ranks: 2.9.1\n    wrong (summed) with 2 ranks: 2.8.0, 2.7.1\n        got 2"
    )


def test_a_check_of_several_rows_has_one_script_with_the_row_as_its_option() -> None:
    average, total = "collectives.all_reduce[op=avg]", "collectives.all_reduce[op=sum]"
    rows = reproduce.rows_of(ENTRIES[average], ENTRIES)

    text = reproduce.script(rows, [])

    assert rows[0].id == average
    assert {row.id for row in rows} == {row for row in ENTRIES if row.startswith("collectives.all_reduce[")}
    assert reproduce.name(ENTRIES[average]) == reproduce.name(ENTRIES[total])
    assert table_in(text) == {row.id: (row.world_sizes, row.params, row.needs) for row in rows}
    head = ast.get_docstring(ast.parse(text)) or ""
    assert f"    python SCRIPT --row '{average}' --ranks 2\n" in head
    assert f"    torchrun --nproc-per-node 2 SCRIPT --row '{average}'\n" in head
    assert f"That is its first row; --list lists all {len(rows)}." in head


def table_in(text: str) -> Any:
    """Return the table of rows of a script."""
    names: dict[str, Any] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in {"SCRIPT_ROWS", "SCRIPT_NEEDS"}:
            names[ast.unparse(node.targets[0])] = eval(ast.unparse(node.value), dict(names))  # noqa: S307 - our own text
    return names["SCRIPT_ROWS"]


def test_each_check_has_a_name_of_its_own() -> None:
    names = {(entry.module, entry.function): reproduce.name(entry) for entry in ENTRIES.values()}
    assert len(set(names.values())) == len(names)
    assert all(re.fullmatch(r"[\w.]+\.py", name) for name in names.values())


def test_where_a_cell_was_measured_is_said_as_far_as_it_takes() -> None:
    one, other = made_up.record(outcome("a.x")), made_up.record(outcome("a.x"), channel="2.9.1")
    assert places([one, other]) == ["2.9.1", "2.8.0"]
    cpu, mpi = (made_up.record(outcome("a.x"), **place) for place in ({"flavour": "cpu"}, {"backend": "mpi"}))
    assert places([one, cpu]) == ["2.8.0 cpu", "2.8.0 nodrv"]
    assert places([one, mpi]) == [
        "2.8.0 (gloo on cpu, linux x86_64)",
        "2.8.0 (mpi on cpu, linux x86_64)",
    ]


def places(records: list[Record]) -> list[str]:
    return [place for place, _ in reproduce.observed(groups(records))["a.x"]]


def test_a_row_that_was_not_measured_says_so() -> None:
    assert "It was not measured yet." in reproduce.script([ENTRIES[GRADIENTS]], [])


def test_several_stages_cannot_be_run_by_torchrun_and_the_head_says_so() -> None:
    text = script_of("dcp.resume")

    assert "torchrun cannot run it" in text
    assert "torchrun --nproc" not in text


HOSTILE = [
    '"""\nimport os\nos.abort()\n"""',
    'ends with a quote"',
    "\\",
    "\\N{NOPE} \\u \\x \\",
    'four """" and \\""" escaped',
    "'''",
    "a\rb\x0cc\x00d\x85e\u2028f\x1b[2J",
    "turned \u202e round \ud800",
    "# -*- coding: utf-7 -*-",
    "%(prog)s %d {x}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_in_the_docstring(text: str) -> None:
    plain = ast.parse(reproduce.script([ENTRIES[GRADIENTS]], []))
    seen = [(text, outcome(GRADIENTS, 2, "wrong", deviation=text, message=text))]

    tree = ast.parse(reproduce.script([ENTRIES[GRADIENTS]], seen).encode())

    assert [ast.dump(node) for node in tree.body[1:]] == [ast.dump(node) for node in plain.body[1:]]
    head = ast.get_docstring(tree, clean=False) or ""
    assert all(line.isprintable() for line in head.split("\n"))


def test_a_name_that_two_parts_want_is_said(tmp_path: Path) -> None:
    write(tmp_path, "def leaves(value):\n    return value\n", "leaves(context)")

    with pytest.raises(
        ConfigurationError, match=r"bad\.it: .* is taken there: leaves \(bad\.py and check\.py\)"
    ):
        reproduce.script([catalogue.load(tmp_path)["bad.it"]], [], tmp_path)


@pytest.mark.parametrize(
    ("head", "body", "sizes", "parts"),
    [
        (
            "def later():\n    return 3\nLIST = [1]\nSIZES = tuple(LIST)\n",
            "later()",
            "SIZES",
            ["LIST = [1]", "SIZES = tuple(LIST)", "def it(context", "def later()"],
        ),
        (
            "def made():\n    return (2,)\nSIZES = (2,)\nOTHER = made()\n",
            "OTHER",
            "SIZES",
            ["def made()", "OTHER = made()", "def it(context"],
        ),
        (
            'T = {"a": 1}\nT["b"] = 2\nT.update(c=3)\nif T:\n    T["d"] = 4\n',
            "T",
            "(2,)",
            ['T = {"a": 1}', 'T["b"] = 2', "T.update(c=3)", 'T["d"] = 4', "def it(context"],
        ),
    ],
    ids=["of the decorator", "of a constant", "what is run for its effect"],
)
def test_what_is_run_at_import_stands_before_the_check_and_functions_after(
    head: str, body: str, sizes: str, parts: list[str], tmp_path: Path
) -> None:
    entry = write(tmp_path, head, body, world_sizes=sizes)

    text = reproduce.script([entry], [], tmp_path)

    assert sorted(parts, key=text.index) == parts


# -- the verdict ----------------------------------------------------------------------------------------------


def test_a_script_decides_by_the_launchers_own_rules_and_wordings() -> None:
    text = script_of(GRADIENTS)

    for shared in (verdict.decide, verdict.error_of, verdict.Rules, accounts.report_of, accounts.described):
        assert re.sub(r"  # noqa.*", "", inspect.getsource(shared)) in text
    for item in refusals.load().refusals:
        assert f"    {item.pattern!r}," in text


# -- running --------------------------------------------------------------------------------------------------


def run(
    text: str, folder: Path, *options: str, python: str = sys.executable, launcher: tuple[str, ...] = ()
) -> Any:
    path = folder / "script.py"
    path.write_text(text)
    command = [python, *launcher, str(path), *options]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment(folder), timeout=400
    )


def environment(folder: Path) -> dict[str, str]:
    """Return an environment without this project on its path."""
    left_out = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    return {**{key: value for key, value in os.environ.items() if key not in left_out}, "TMPDIR": str(folder)}


def observed(done: Any) -> str:
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert last.startswith("observed: "), done.stdout + done.stderr
    return str(last.removeprefix("observed: "))


def expected(cell: Outcome) -> str:
    """Return how a script's last line begins where it shows what a record holds."""
    return f"{cell.status.value} ({cell.deviation})" if cell.deviation else cell.status.value


def torch_of(packages: Path) -> str:
    """Return the version of the torch in a folder of packages, without importing it."""
    found = re.search(r"__version__ = '(.+)'", (packages / "torch" / "version.py").read_text())
    return found[1] if found else ""


def record_of(version: str) -> Record | None:
    """Return the record of a build of torch on gloo and CPU."""
    return next(
        (
            found
            for found in RECORDS
            if found.variant.torch == version and found.environment.backend == "gloo"
        ),
        None,
    )


@pytest.mark.torch
@pytest.mark.parametrize("row", FAMILIES)
def test_a_script_shows_what_the_record_of_this_torch_says(row: str, tmp_path: Path) -> None:
    origin = (importlib.util.find_spec("torch") or pytest.fail("no torch")).origin
    measured = record_of(torch_of(Path(str(origin)).parent.parent))
    if measured is None:
        pytest.skip("this torch has no record")
    cell = next(cell for cell in measured.cells if cell.id == row)

    done = run(script_of(row), tmp_path, "--ranks", str(cell.world_size))

    assert observed(done).startswith(expected(cell))
    assert done.returncode == (0 if cell.status is Status.PASS else 1)
    assert list(tmp_path.glob("tmp*")) == []


def failing_elsewhere() -> Iterator[tuple[str, str, Outcome]]:
    """Yield interpreter, release and cell, where another release is installed: what fails there, and must be shown."""
    root = Path(__file__).parents[2]
    folders = [root / ".nox", *map(Path, filter(None, [os.environ.get("CANISHARD_TEST_ENVS")]))]
    for python in sorted(path for folder in folders for path in folder.glob("checks-*/bin/python")):
        packages = next(python.parent.parent.glob("lib/python*/site-packages/torch"), None)
        measured = record_of(torch_of(packages.parent)) if packages else None
        for cell in shown(measured) if measured else ():
            yield str(python), measured.environment.channel if measured else "", cell


def shown(measured: Record) -> Iterator[Outcome]:
    """Yield the first cell of a record that shows each quirk that is wrong or a crash, and the first bad one a family."""
    grave = [one for one in quirks.load() if {Status.WRONG, Status.CRASH} & set(one.shows)]
    first: dict[str, Outcome] = {}
    for cell in measured.cells:
        for quirk in grave:
            if quirk.is_shown_by(cell):
                first.setdefault(quirk.name, cell)
        if cell.status not in {Status.PASS, Status.FLAKY, *quirks.NOT_MEASURED}:
            first.setdefault(ENTRIES[cell.id].family if cell.id in ENTRIES else "", cell)
    yield from {cell.key: cell for cell in first.values() if cell.id in ENTRIES}.values()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("python", "release", "cell"),
    [pytest.param(*found, id=f"{found[1]} {found[2].id}") for found in failing_elsewhere()],
)
def test_a_script_fails_on_a_release_as_its_record_says(
    python: str, release: str, cell: Outcome, tmp_path: Path
) -> None:
    done = run(script_of(cell.id), tmp_path, "--ranks", str(cell.world_size), python=python)

    assert f"{cell.id}, torch {release}" in done.stdout
    assert observed(done).startswith(expected(cell))
    assert done.returncode == 1


def write(folder: Path, head: str, body: str, **declared: str) -> Entry:
    """Write a check, and return its row."""
    options = "".join(f", {name}={value}" for name, value in declared.items())
    (folder / "bad.py").write_text(
        "from __future__ import annotations\nimport os\nimport torch.distributed as dist\n"
        f"from canishard.check import Context, check\n\n{head}\n\n"
        f'@check(feature="f"{options})\ndef it(context: Context, n: int = 0) -> None:\n    """It."""\n    {body}\n'
    )
    return next(iter(catalogue.load(folder).values()))


ABORT = "os.abort() if context.rank else dist.barrier()"
STAY = "dist.barrier() if context.rank else context.equal('a', 1, 1)"
DOUBLE = "context.equal('a', 2 * context.rank, context.rank, wrong={'doubled': 2 * context.rank + (not context.rank)})"
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("launcher", "body", "said", "told"),
    [
        ((), ABORT, "crash (signal SIGABRT in phase body)", "rank 1 (run): signal SIGABRT in phase body"),
        (
            TORCHRUN,
            ABORT,
            "crash (signal SIGABRT in phase body)",
            "rank 1 (run): signal SIGABRT in phase body",
        ),
        ((), STAY, "hang (no report by the deadline, in phase body)", "in barrier"),
        (TORCHRUN, DOUBLE, "wrong (doubled)", "rank 1 (run): a: doubled\n    got    2\n    wanted 1"),
    ],
    ids=["crash", "crash under torchrun", "hang", "wrong under torchrun"],
)
def test_what_a_rank_does_is_told(
    launcher: tuple[str, ...], body: str, said: str, told: str, tmp_path: Path
) -> None:
    entry = write(tmp_path, "", body, deadline_s="4.0")

    done = run(reproduce.script([entry], [], tmp_path), tmp_path, launcher=launcher)

    assert observed(done) == said
    assert told in done.stdout
    assert done.returncode == 1
    assert list(tmp_path.glob("tmp*")) == []


@pytest.mark.torch
def test_another_row_is_run_where_it_is_asked_for_and_a_bad_one_is_told(tmp_path: Path) -> None:
    write(tmp_path, "", "context.equal('n', n, 1)", params='{"n": (1, 2)}', world_sizes="(3,)")
    rows = list(catalogue.load(tmp_path).values())
    text = reproduce.script(rows, [], tmp_path)

    first = run(text, tmp_path)
    assert (first.stdout.partition(",")[0], observed(first)) == ("bad.it[n=1]", "pass")
    assert "3 ranks" in first.stdout
    second = run(text, tmp_path, "--row", "bad.it[n=2]", "--ranks", "1")
    assert (second.stdout.partition(",")[0], second.returncode) == ("bad.it[n=2]", 1)
    assert run(text, tmp_path, "--list").stdout == "bad.it[n=1]\nbad.it[n=2]\n"
    bad = run(text, tmp_path, "--row", "bad.it[n=3]")
    assert bad.returncode == 2
    assert bad.stderr.endswith(
        "no row bad.it[n=3]; did you mean bad.it[n=2] or bad.it[n=1]? --list lists them\n"
    )


@pytest.mark.torch
def test_the_rows_of_a_table_have_one_script_and_each_its_recipe_and_needs(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from canishard.check import Context, Row, check\n\n\ndef twice(value):\n    return 2 * value\n\n\n"
        'TABLE = {"same": abs, "twice": twice, "absent": Row(recipe=abs, needs=["torch.no"])}\n\n\n'
        '@check(feature="f", rows={"op": TABLE}, world_sizes=(1,))\n'
        'def it(context: Context, recipe, op):\n    """It."""\n    context.equal("a", recipe(3), 3)\n'
    )
    text = reproduce.script(list(catalogue.load(tmp_path).values()), [], tmp_path)

    for op, said in {"same": "pass", "twice": "wrong (no known", "absent": "missing (torch.no does"}.items():
        assert observed(run(text, tmp_path, "--row", f"bad.it[op={op}]")).startswith(said), op


@pytest.mark.torch
def test_ranks_meet_in_a_temporary_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "a b#c?d%20e'f;\u00fc"
    folder.mkdir()
    entry = write(tmp_path, "", "dist.barrier(); context.equal('a', 1, 1)")

    done = run(reproduce.script([entry], [], tmp_path), folder)

    assert (observed(done), done.returncode) == ("pass", 0)
    assert list(folder.glob("tmp*")) == []


@pytest.mark.torch
def test_a_name_that_does_not_exist_is_told_before_a_rank_starts(tmp_path: Path) -> None:
    entry = write(tmp_path, "", "context.equal('a', 1, 2)", needs='[("torch.no", "torch.never")]')

    done = run(reproduce.script([entry], [], tmp_path), tmp_path)

    assert observed(done) == "missing (torch.no does not exist (nor torch.never))"
    assert "rank" not in done.stdout.replace("2 ranks", "")
