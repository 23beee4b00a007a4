from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from canishard import declare  # noqa: E402
from canishard.check import (  # noqa: E402
    Api,
    Check,
    CheckFault,
    Context,
    Row,
    agrees,
    check,
    differences,
    find,
    leaves,
    max_abs_diff,
    resolve,
    scaled,
    shown,
)

pytestmark = pytest.mark.torch

ONES = torch.ones(3)
NAN = torch.tensor([float("nan"), 1.0])


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(0, 2, torch.device("cpu"), "gloo", tmp_path, "run", Api([]))


AGREEMENTS = [
    ("same", ONES, ONES.clone(), None, True),
    ("float32 rounding", ONES + 1e-6, ONES, None, True),
    ("float32 beyond it", ONES + 1e-4, ONES, None, False),
    ("bfloat16 rounding", (ONES * 1.01).bfloat16(), ONES.bfloat16(), None, True),
    ("bfloat16 doubled", (ONES * 2).bfloat16(), ONES.bfloat16(), None, False),
    ("float64 is tighter", ONES.double() + 1e-9, ONES.double(), None, False),
    ("exact", ONES + 1e-6, ONES, (0.0, 0.0), False),
    ("given tolerance", ONES + 0.5, ONES, (0.0, 0.6), True),
    ("integers are exact", torch.tensor([1, 2]), torch.tensor([1, 3]), None, False),
    ("shape", torch.ones(3, 1), ONES, None, False),
    ("dtype", ONES.double(), ONES, None, False),
    ("nan is nan", NAN, NAN.clone(), None, True),
    ("nan is not a number", NAN, torch.ones(2), None, False),
    ("empty", torch.empty(0, 3), torch.empty(0, 3), None, True),
    ("plain", "a", "a", None, True),
    ("plain of another type", 1, 1.0, None, False),
    ("tensor against plain", torch.tensor(1.0), 1.0, None, False),
    ("dtypes", torch.float32, torch.bfloat16, None, False),
]


@pytest.mark.parametrize(("got", "wanted", "tolerance", "expected"), [row[1:] for row in AGREEMENTS],
                         ids=[row[0] for row in AGREEMENTS])  # fmt: skip
def test_agrees(got: Any, wanted: Any, tolerance: tuple[float, float] | None, expected: bool) -> None:
    assert agrees(got, wanted, tolerance) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, {"": 5}),
        ({}, {"": {}}),
        ([], {"": []}),
        ({"a": [1, {"b": 2}], "c": ()}, {"['a'][0]": 1, "['a'][1]['b']": 2, "['c']": ()}),
    ],
)
def test_leaves(value: Any, expected: dict[str, Any]) -> None:
    assert leaves(value) == expected


def test_differences_are_listed_largest_first() -> None:
    wanted = {"a": ONES, "b": [ONES, ONES], "c": 1}
    got = {"a": ONES * 2, "b": [ONES, ONES * 9], "c": 1}

    assert [path for path, _, _ in differences(got, wanted, None)] == ["['b'][1]", "['a']"]


@pytest.mark.parametrize(
    ("got", "wanted", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, [("['b']", "(absent)", 2)]),
        ({"a": 1, "b": 2}, {"a": 1}, [("['b']", 2, "(absent)")]),
        ({}, {"a": 1}, [("['a']", "(absent)", 1), ("", {}, "(absent)")]),
        ([1], (1,), []),
    ],
    ids=["absent", "extra", "empty", "list and tuple"],
)
def test_differences_see_structure(got: Any, wanted: Any, expected: list[tuple[str, Any, Any]]) -> None:
    assert differences(got, wanted, None) == expected


@pytest.mark.parametrize(
    ("got", "wanted", "expected"),
    [
        (ONES * 3, ONES, 2.0),
        (torch.tensor([True]), torch.tensor([False]), 1.0),
        (NAN, torch.ones(2), float("inf")),
        (torch.ones(2), ONES, None),
        (torch.empty(0), torch.empty(0), None),
        (ONES + 0j, ONES + 0j, None),
        (1, 2, None),
    ],
)
def test_max_abs_diff(got: Any, wanted: Any, expected: float | None) -> None:
    assert max_abs_diff(got, wanted) == expected


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (torch.tensor(1.5), "[1.5] shape=() dtype=float32"),
        (torch.arange(2), "[0, 1] shape=(2,) dtype=int64"),
        (torch.full((3, 3), 1 / 3), f"[{', '.join(['0.333333'] * 8)}, ...] shape=(3, 3) dtype=float32"),
        ("x" * 300, "'" + "x" * 199),
    ],
)
def test_shown(leaf: Any, expected: str) -> None:
    assert shown(leaf) == expected


def test_scaled_keeps_the_structure() -> None:
    got = scaled({"a": (ONES, "text"), "b": [ONES]}, 2)

    assert differences(got, {"a": (ONES * 2, "text"), "b": [ONES * 2]}, None) == []


def test_a_difference_is_noted_and_named(context: Context) -> None:
    right = {"w": ONES, "b": ONES}
    wrong = {"halved": scaled(right, 0.5), "summed": scaled(right, 2)}

    context.equal("gradients", scaled(right, 2), right, wrong=wrong)
    context.equal("gradients", scaled(right, 3), right, wrong=wrong)
    context.equal("gradients", right, right, wrong=wrong)

    assert context.compared == 3
    assert context.mismatches[0] == {
        "label": "gradients['w']",
        "differing": 2,
        "of": 2,
        "got": "[2, 2, 2] shape=(3,) dtype=float32",
        "wanted": "[1, 1, 1] shape=(3,) dtype=float32",
        "max_abs_diff": 1.0,
        "deviations": ["summed"],
    }
    assert [mismatch["deviations"] for mismatch in context.mismatches] == [["summed"], []]


@pytest.mark.parametrize(
    ("options", "mismatches"), [({}, 0), ({"exact": True}, 1), ({"rtol": 1e-9}, 1), ({"atol": 1e-3}, 0)]
)
def test_tolerance_of_a_comparison(context: Context, options: dict[str, Any], mismatches: int) -> None:
    context.equal("value", ONES + 1e-6, ONES, **options)

    assert len(context.mismatches) == mismatches


def test_a_known_wrong_value_that_is_right_is_the_checks_fault(context: Context) -> None:
    with pytest.raises(CheckFault, match="value: the known wrong value 'summed' equals the right one"):
        context.equal("value", ONES, ONES, wrong={"summed": ONES})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a package with a function in a module of its name, and a module that cannot be imported."""
    folder = tmp_path / "resolvable"
    folder.mkdir()
    (folder / "__init__.py").write_text("from resolvable.shard import shard\n")
    (folder / "shard.py").write_text("def shard(): pass\n")
    (folder / "later.py").write_text("VALUE = 1\n")
    (folder / "broken.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "resolvable"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("shard", "function"), ("later", "module"), ("later.VALUE", "int"), ("shard.__name__", "str")],
)
def test_resolve(package: str, name: str, kind: str) -> None:
    assert type(resolve(f"{package}.{name}")).__name__ == kind


@pytest.mark.parametrize("name", ["absent", "absent.VALUE", "later.absent", "later.VALUE.absent"])
def test_resolve_says_what_is_not_there(package: str, name: str) -> None:
    with pytest.raises(LookupError, match=package):
        resolve(f"{package}.{name}")


def test_a_module_that_cannot_be_imported_is_not_absent(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        resolve(f"{package}.broken")


def test_find_takes_the_first_name_that_exists() -> None:
    name, found = find(("torch.no_such_thing", "torch.Tensor", "torch.nn"))

    assert (name, found) == ("torch.Tensor", torch.Tensor)


def test_find_lists_what_it_tried() -> None:
    with pytest.raises(LookupError, match=r"torch\.neither, torch\.nor"):
        find(("torch.neither", "torch.nor"))


def test_api_goes_by_the_first_name() -> None:
    api = Api([("torch.new_name", "torch.Tensor")])

    assert api.new_name is torch.Tensor
    with pytest.raises(CheckFault, match="Tensor is not among the needs of this check"):
        _ = api.Tensor


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """No check but those of the test."""
    found: list[Check] = []
    monkeypatch.setattr(declare, "CHECKS", found)
    return found


def test_declaration(declared: list[Check]) -> None:
    needs = ["a.b", ("c.d", "e.f")]

    @check(feature="f", params={"op": ("sum",)}, needs=needs, workaround="w", rests_on=["x.y"])
    def subject(context: Context, op: str) -> None:
        """Title of the row.

        More.
        """

    (found,) = declared
    assert found.function is subject
    assert (found.family, found.subject, found.title) == (
        __name__.rpartition(".")[2],
        "subject",
        "Title of the row",
    )
    assert (found.needs, found.rests_on, found.workaround) == (needs, ["x.y"], "w")


@pytest.mark.parametrize(
    ("name", "family"),
    [("canishard.checks.dtensor.redistribute", "dtensor"), ("mine", "mine"), ("my.inner.deep", "deep")],
)
def test_a_family_is_the_folder_of_one_of_ours_and_else_the_module(name: str, family: str) -> None:
    assert declare.family_of(name) == family


@pytest.mark.parametrize("entry", [Row(recipe=3, title="Three"), 3], ids=["row", "recipe alone"])
def test_a_check_over_a_table_is_handed_the_recipe(
    declared: list[Check], context: Context, entry: object
) -> None:
    seen = []

    @check(feature="f", rows={"op": {"three": entry, "four": 4}}, params={"n": (1,)})
    def subject(_: Context, recipe: int, op: str, n: int) -> None:
        """Title."""
        seen.append((recipe, op, n))

    subject(context, op="three", n=1)

    assert (declared[0].function, seen) == (subject, [(3, "three", 1)])


def test_a_check_has_one_table() -> None:
    with pytest.raises(ValueError, match=r"rows=\['a', 'b'\]: expected one parameter with its table"):
        check(feature="f", rows={"a": {}, "b": {}})(resolve)


def test_a_check_needs_a_title() -> None:
    with pytest.raises(ValueError, match="a check needs a docstring, its row's title"):
        check(feature="f")(lambda _: None)
