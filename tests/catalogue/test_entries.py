"""What the checks declare is read from their sources, and is what they declare when they are imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from catalogue.sources_of import Files

from canishard import catalogue, files, record, releases
from canishard.catalogue import entries
from canishard.errors import ConfigurationError
from canishard.launch.outcome import Case

HEAD = '''"""Checks."""
import torch
from canishard.check import Context, Stage, check

PREFIX, SIZES = "torch.distributed", (2,)
OLD = (f"{PREFIX}.new", f"{PREFIX}._old")
REDUCE = {"sum": lambda stack: torch.sum(stack), "avg": lambda stack: stack.mean(0)}
BASE: list[str] = ["canary.*"]
TYPES = {torch.float32: 1}
'''


def loaded(
    tmp_path: Path, decorator: str, head: str = HEAD, name: str = "family.py"
) -> list[catalogue.Entry]:
    (tmp_path / name).write_text(
        f'{head}\n\n{decorator}\ndef works(context):\n    """It works.\n\n    And more."""\n'
    )
    return list(catalogue.load(tmp_path).values())


def test_a_decorator_is_evaluated_without_running_anything(tmp_path: Path) -> None:
    decorator = """@check(
    feature="f" + "g",
    params={"op": tuple(REDUCE), "n": (-1, *SIZES), "on": [True], "s": (0.5,)},
    world_sizes=SIZES,
    needs=["torch.a", OLD],
    rests_on=[*BASE, "more"],
    workaround="trick",
    packages=["numpy"],
    stages=[Stage("a"), Stage("b", 1, process_group=False)],
    deadline_s=torch.anything,
)"""

    found = loaded(tmp_path, decorator)

    assert [entry.id for entry in found] == [
        f"family.works[op={op},n={n},on=True,s=0.5]+trick" for op in ("sum", "avg") for n in (-1, 2)
    ]
    first = found[0]
    assert (first.feature, first.title, first.workaround) == ("fg", "It works", "trick")
    assert first.params == {"op": "sum", "n": -1, "on": True, "s": 0.5}
    assert first.needs == [["torch.a"], ["torch.distributed.new", "torch.distributed._old"]]
    assert (first.world_sizes, first.rests_on, first.packages) == ([2], ["canary.*", "more"], ["numpy"])
    assert first.source.startswith('@check(\n    feature="f" + "g",')
    assert first.source.endswith('And more."""')


def test_what_is_left_out_is_what_the_decorator_leaves_out(tmp_path: Path) -> None:
    found = loaded(tmp_path, '@check(feature="f", subject="other")')[0]

    assert (found.id, found.function, found.module) == ("family.other", "works", "family")
    assert (found.world_sizes, found.needs, found.params, found.workaround) == ([2, 4], [], {}, "")


@pytest.mark.parametrize(
    ("decorator", "said"),
    [
        (
            "@check(feature=torch.version)",
            "torch.version: not a constant, which a decorator's arguments must be",
        ),
        ("@check(feature=open('x').read())", "open('x').read(): not a constant"),
        ("@check(feature='f', needs=TYPES)", "torch.float32: 1}: not a constant"),
        ("@check(feature=NOWHERE)", "NOWHERE: not a constant of the file"),
        ("@check(feature=works)", "works: not a constant of the file"),
        ("@check('f')", "check takes its arguments by name"),
        ("@check(**{'feature': 'f'})", "check takes its arguments by name"),
        ("@check(feature=1)", "Expected `str`, got `int` - at `$.feature`"),
        ("@check(feature='f', params={'op': ({},)})", "got `object` - at `$.params[...]"),
        ("@check(subject='s')", "missing required field `feature`"),
        ("@check(feature='f' + 1)", "'f' + 1: can only concatenate str"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line_with_the_place(
    tmp_path: Path, decorator: str, said: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        loaded(tmp_path, decorator)

    text = str(raised.value)
    assert "\n" not in text
    assert said in text
    assert text.startswith(("family.py:12: ", "family.py:9: "))


def test_constants_are_found_through_imports(ours: Files) -> None:
    ours.write(
        checks__names='OLD = ("torch.new", "torch._old")\nSIZES = (2,)\n',
        checks__family__common="from canishard.checks.names import OLD as MOVED\n\nNEEDS = [MOVED]\n",
        checks__family__topic="""from canishard.check import Context, check
from canishard.checks.family.common import NEEDS
from canishard.checks.names import SIZES


@check(feature="f", world_sizes=SIZES, needs=[*NEEDS, "torch.more"])
def works(context: Context): ...
""",
    )

    (found,) = catalogue.load(ours.folder / "checks").values()

    assert (found.needs, found.world_sizes) == ([["torch.new", "torch._old"], ["torch.more"]], [2])
    assert (found.id, found.family, found.module) == (
        "family.works",
        "family",
        "canishard.checks.family.topic",
    )


def test_files_are_read_in_the_order_in_which_modules_are_imported(tmp_path: Path) -> None:
    for name in ("b/z", "b/a_b", "b/a", "a_b/x", "a/y", "c", "_hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").touch()

    found = [str(path.relative_to(tmp_path).with_suffix("")) for path in entries.files(tmp_path)]

    assert found == ["a/y", "a_b/x", "b/a", "b/a_b", "b/z", "c"]


def test_the_same_id_twice_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"family\.py:15: family\.works is declared twice"):
        loaded(tmp_path, "@check(feature='f')\ndef works(context): ...\n\n@check(feature='f')")


def test_a_file_that_is_not_python_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"family\.py:\d+: not Python: "):
        loaded(tmp_path, "@check(")


def test_our_own_rows_are_read_without_torch() -> None:
    entry = catalogue.load()["fsdp2.gradients[reduce=default]"]

    assert (entry.family, entry.subject, entry.params) == ("fsdp2", "gradients", {"reduce": "default"})
    assert entry.module == "canishard.checks.fsdp2.gradients"
    assert entry.needs[0][0] == "torch.distributed.fsdp.fully_shard"


@pytest.mark.torch
def test_the_sources_say_what_importing_the_checks_says() -> None:
    code = "import json; from canishard.launch import inventory; print(json.dumps(inventory.cases(['canishard.checks'])))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cases = [Case(**{**item, "stages": []}) for item in json.loads(done.stdout)]
    names = [
        "id",
        "family",
        "feature",
        "title",
        "module",
        "function",
        "workaround",
        "params",
        "needs",
        "rests_on",
        "packages",
    ]

    def said(row: Any) -> dict[str, Any]:
        return {name: getattr(row, name) for name in names}

    assert {case.key: said(case) for case in cases} == {
        (entry.id, size): said(entry) for entry in catalogue.load().values() for size in entry.world_sizes
    }
    assert list(dict.fromkeys(case.id for case in cases)) == list(catalogue.load())


def test_the_digests_of_rows_are_those_of_the_committed_records() -> None:
    version = releases.ci_release(releases.load()).version
    found = record.load(next((files.matrix_dir() / "results").glob(f"torch-{version}-*64.json")))
    wanted = {cell.id: cell.digest for cell in found.cells}
    assert {entry.id: catalogue.digest_of(entry) for entry in catalogue.load().values()} == wanted


def test_a_row_s_workarounds_are_of_its_subject_and_ask_for_no_other_parameter(tmp_path: Path) -> None:
    (tmp_path / "pp.py").write_text(
        "from canishard.check import check\n"
        '@check(feature="f", subject="a", params={"op": ("sum", "avg"), "n": (1, 2)})\ndef plain(context): ...\n'
        '@check(feature="f", subject="a", params={"op": ("avg",)}, workaround="scale")\ndef scaled(context): ...\n'
        '@check(feature="f", subject="a", params={"n": (2,), "op": ("avg",)}, workaround="whole")\n'
        "def whole(context): ...\n"
        '@check(feature="f", subject="b", params={"op": ("avg",)})\ndef other(context): ...\n'
    )
    (tmp_path / "tp.py").write_text(
        'from canishard.check import check\n@check(feature="f", subject="a", params={"op": ("avg",)})\ndef a(context): ...\n'
    )

    assert catalogue.workarounds(catalogue.load(tmp_path)) == {
        "pp.a[op=sum,n=1]": [],
        "pp.a[op=sum,n=2]": [],
        "pp.a[op=avg,n=1]": ["pp.a[op=avg]+scale"],
        "pp.a[op=avg,n=2]": ["pp.a[op=avg]+scale", "pp.a[n=2,op=avg]+whole"],
        "pp.b[op=avg]": [],
        "tp.a[op=avg]": [],
    }
