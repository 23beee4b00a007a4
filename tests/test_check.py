from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from canishard import declare  # noqa: E402
from canishard.check import (  # noqa: E402
    TOLERANCES,
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

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")]

ONES = torch.ones(3)
NAN = torch.tensor([float("nan"), 1.0])


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(0, 2, torch.device("cpu"), "gloo", tmp_path, "run", Api([]))


AGREEMENTS = [
    ("same", ONES, ONES.clone(), None, True),
    ("float32 rounding", ONES + 1e-6, ONES, None, True),
    ("float32 beyond it", ONES + 1e-4, ONES, None, False),
    (
        "bfloat16 rounding",
        torch.tensor([1.75 + 2**-7]).bfloat16(),
        torch.tensor([1.75]).bfloat16(),
        None,
        True,
    ),
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
    ("plain float rounding", 1.0 + 1e-13, 1.0, None, True),
    ("plain float beyond it", 1.0 + 1e-9, 1.0, None, False),
    ("plain float, given tolerance", 1.5, 1.0, (0.0, 0.6), True),
    ("plain float, exact", 1.0 + 1e-13, 1.0, (0.0, 0.0), False),
    ("plain nan is nan", math.nan, math.nan, None, True),
    ("plain nan is not a number", math.nan, 1.0, (1.0, 1.0), False),
    ("a number is not nan", 1.0, math.nan, (1.0, 1.0), False),
    ("plain infinity", math.inf, math.inf, (0.0, 0.5), True),
    ("plain infinity of another sign", -math.inf, math.inf, (0.5, 0.5), False),
    ("plain complex", 1 + 2j, 1 + 3j, (0.0, 0.5), False),
    ("true is not one", True, 1, None, False),
    ("exact nan", NAN, -NAN, (0.0, 0.0), False),
    ("exact nan of other bits", torch.tensor([math.nan]), -torch.tensor([math.nan]), (0.0, 0.0), True),
    ("exact zero has a sign", torch.tensor(-0.0), torch.tensor(0.0), (0.0, 0.0), False),
    ("zero has none with a tolerance", torch.tensor(-0.0), torch.tensor(0.0), None, True),
    ("lazily conjugated", torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]), None, True),
    ("lazily conjugated, exact", torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]), (0.0, 0.0), True),
    ("lazily conjugated, another", torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]), None, False),
    ("sparse", ONES.to_sparse(), ONES.to_sparse(), None, True),
    ("sparse, another", (ONES * 2).to_sparse(), ONES.to_sparse(), None, False),
    ("strided otherwise", torch.eye(3).t()[:2], torch.eye(3)[:2], (0.0, 0.0), True),
    ("largest integers", torch.tensor([2**62 + 1]), torch.tensor([2**62]), None, False),
]


@pytest.mark.parametrize(("got", "wanted", "tolerance", "expected"), [row[1:] for row in AGREEMENTS],
                         ids=[row[0] for row in AGREEMENTS])  # fmt: skip
def test_agrees(got: Any, wanted: Any, tolerance: tuple[float, float] | None, expected: bool) -> None:
    assert agrees(got, wanted, tolerance) is expected


# -- every dtype of torch -----------------------------------------------------------------------------------------

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
}
FLOATS = sorted(name for name, dtype in DTYPES.items() if dtype.is_floating_point)
COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
WITHOUT_NUMBERS = {"float4_e2m1fn_x2"}
"""Kinds of floating point that torch converts neither from nor to another: all that one can change are bits."""
WITHOUT_INFINITY = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"}
PRECISE = ["bfloat16", "float16", "float32", "float64"]
"""Kinds in which one hundredth more is another number."""
EXACT = (0.0, 0.0)
LENGTH = 5


def elements(name: str) -> Any:
    """Return the bytes of some elements, a row an element: small numbers, no two the same, none of them NaN."""
    numbers = torch.arange(2, 2 + LENGTH, dtype=torch.float32)
    if name in COMPLEX:
        parts = numbers.to(DTYPES[COMPLEX[name]])
        return torch.stack([parts, parts + 1], dim=1).view(torch.uint8)
    if name in FLOATS and name not in WITHOUT_NUMBERS:
        numbers = 2**numbers if name == "float8_e8m0fnu" else numbers
        return numbers.to(DTYPES[name]).view(torch.uint8).reshape(LENGTH, -1)
    size = DTYPES[name].itemsize
    return (torch.arange(LENGTH * size, dtype=torch.uint8) % 2).reshape(LENGTH, size)


def tensor_of(name: str, raw: Any) -> Any:
    return raw.flatten().view(DTYPES[name])


def with_number(name: str, place: int, part: int, number: float) -> Any:
    """Return the elements of a kind with another number in one place, in the real part or the imaginary one."""
    kind = DTYPES[COMPLEX.get(name, name)]
    raw = elements(name)
    new = torch.tensor([number]).to(kind).view(torch.uint8)
    raw[place, part * len(new) : (part + 1) * len(new)] = new
    return tensor_of(name, raw)


def number_at(name: str, place: int, part: int) -> float:
    kind = DTYPES[COMPLEX.get(name, name)]
    return float(elements(name).flatten().view(kind).double().reshape(LENGTH, -1)[place, part])


def parts_of(name: str) -> range:
    return range(2 if name in COMPLEX else 1)


PLACES = [(name, place, part) for name in DTYPES for place in (0, 2, LENGTH - 1) for part in parts_of(name)]
NUMBERS = [each for each in PLACES if each[0] in {*FLOATS, *COMPLEX} - WITHOUT_NUMBERS]


def test_every_kind_of_number_that_torch_has_is_among_these() -> None:
    assert {"bfloat16", "bits8", "bool", "complex32", "float8_e5m2", "qint8", "uint64"} <= DTYPES.keys()
    assert all(tensor_of(name, elements(name)).dtype is dtype for name, dtype in DTYPES.items())
    assert set(FLOATS) - {*PRECISE, *WITHOUT_NUMBERS} == {
        name for name in DTYPES if name.startswith("float8")
    }


@pytest.mark.parametrize("name", DTYPES)
def test_elements_of_every_kind_agree_with_themselves(name: str) -> None:
    one, other = tensor_of(name, elements(name)), tensor_of(name, elements(name))

    assert agrees(one, other, None)
    assert agrees(one, other, EXACT)
    assert agrees(one[0], other[0], EXACT)
    assert agrees(one[:0], other[:0], None)


@pytest.mark.parametrize(("name", "place", "part"), PLACES)
def test_one_bit_of_one_element_of_every_kind_is_seen(name: str, place: int, part: int) -> None:
    raw = elements(name)
    size = raw.shape[1] // len(parts_of(name))
    for byte in range(part * size, (part + 1) * size):
        changed = raw.clone()
        changed[place, byte] ^= 1

        assert not agrees(tensor_of(name, changed), tensor_of(name, raw), EXACT)
        assert differences(tensor_of(name, changed), tensor_of(name, raw), EXACT) != []
        assert shown(tensor_of(name, changed)) != shown(tensor_of(name, raw)) or byte < part * size + size - 1


@pytest.mark.parametrize("tolerance", [None, EXACT, (0.5, 0.5)], ids=str)
@pytest.mark.parametrize(("name", "place", "part"), NUMBERS)
def test_nan_in_one_place_agrees_with_nan_there_alone(
    name: str, place: int, part: int, tolerance: tuple[float, float] | None
) -> None:
    right, one = tensor_of(name, elements(name)), with_number(name, place, part, math.nan)

    assert not agrees(one, right, tolerance)
    assert not agrees(right, one, tolerance)
    assert agrees(one, one.clone(), tolerance)
    assert not agrees(one, with_number(name, (place + 1) % LENGTH, part, math.nan), tolerance)
    assert max_abs_diff(one, right) == math.inf


@pytest.mark.parametrize("tolerance", [None, EXACT, (0.5, 0.5)], ids=str)
@pytest.mark.parametrize(
    ("name", "place", "part"), [each for each in NUMBERS if each[0] not in WITHOUT_INFINITY]
)
def test_an_infinity_agrees_with_its_like_alone(
    name: str, place: int, part: int, tolerance: tuple[float, float] | None
) -> None:
    right = tensor_of(name, elements(name))
    plus, minus = (with_number(name, place, part, number) for number in (math.inf, -math.inf))

    assert not agrees(minus, plus, tolerance)
    assert not agrees(right, plus, tolerance)
    assert not agrees(plus, right, tolerance)
    assert agrees(plus, plus.clone(), tolerance)


@pytest.mark.parametrize("more", [1.01, 0.99])
@pytest.mark.parametrize(
    ("name", "place", "part"), [each for each in NUMBERS if each[0] in {*PRECISE, *COMPLEX}]
)
def test_one_hundredth_in_one_element_is_seen(name: str, place: int, part: int, more: float) -> None:
    right = tensor_of(name, elements(name))

    assert not agrees(with_number(name, place, part, number_at(name, place, part) * more), right, None)


@pytest.mark.parametrize("name", PRECISE)
def test_one_hundredth_is_seen_wherever_between_two_powers_a_number_lies(name: str) -> None:
    right = (torch.arange(64) / 64 + 1).to(DTYPES[name])

    assert not any(agrees(one, other, None) for one, other in zip((right * 1.01), right, strict=True))


@pytest.mark.parametrize("name", PRECISE)
def test_one_rounding_is_not_seen(name: str) -> None:
    right = torch.linspace(1.0, 2.0, 64, dtype=torch.float64)

    assert all(
        agrees(
            torch.tensor(float(number)),
            torch.tensor(float(number.to(DTYPES[name]))),
            TOLERANCES[DTYPES[name]],
        )
        for number in right
    )


@pytest.mark.parametrize("name", [*PRECISE, *COMPLEX])
def test_ten_times_the_tolerance_is_seen_and_a_tenth_is_not(name: str) -> None:
    rtol, atol = TOLERANCES[DTYPES[name]]
    kind = torch.complex128 if name in COMPLEX else torch.float64
    right = torch.full((3,), 2.0, dtype=kind)

    for allowed, factor in ((True, 0.9), (False, 1.1), (False, 10.0)):
        off = right.clone()
        off[1] += factor * (atol + 2.0 * rtol)
        assert agrees(off, right, TOLERANCES[DTYPES[name]]) is allowed


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [
        (torch.float64, 1e-11),
        (torch.float32, 1e-4),
        (torch.float16, 5e-3),
        (torch.bfloat16, 7e-3),
        (torch.complex64, 1e-4),
    ],
)  # fmt: skip
def test_no_tolerance_is_wider_than_the_dtype_explains(dtype: Any, allowed: float) -> None:
    assert sum(TOLERANCES[dtype]) <= allowed


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
        ({}, {"a": 1}, [("['a']", "(absent)", 1)]),
        ({"a": 1}, {}, [("['a']", 1, "(absent)")]),
        ([1], (1,), []),
        ({0: 1}, [1], [("", {0: 1}, [1])]),
        ([[1]], [{0: 1}], [("[0]", [1], {0: 1})]),
        ({"0": 1}, {0: 1}, [("[0]", "(absent)", 1), ("['0']", 1, "(absent)")]),
        ({1: 1}, {True: 1}, [("[True]", "(absent)", 1), ("[1]", 1, "(absent)")]),
        ([], {}, [("", [], {})]),
        (1, [1], [("", 1, [1])]),
    ],
    ids=str,
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
        (ONES + 0j, ONES + 0j, 0.0),
        (torch.tensor([4 + 5j]), torch.tensor([1 + 1j]), 5.0),
        (torch.tensor([1 + 0j]), torch.tensor([1.0]), None),
        (torch.tensor([math.inf, 3.0]), torch.tensor([math.inf, 1.0]), 2.0),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), math.inf),
        (torch.tensor([3], dtype=torch.uint16), torch.tensor([1], dtype=torch.uint16), 2.0),
        (torch.tensor([3.0]).to(torch.float8_e5m2), torch.tensor([2.0]).to(torch.float8_e5m2), 1.0),
        (tensor_of("bits8", elements("bits8")), tensor_of("bits8", elements("bits8")), None),
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
        (torch.tensor([1 / 3 + 2j]), "[0.333333+2j] shape=(1,) dtype=complex64"),
        (torch.tensor([1.5]).to(torch.float8_e5m2), "[1.5] shape=(1,) dtype=float8_e5m2"),
        (torch.tensor([3], dtype=torch.uint16), "[3] shape=(1,) dtype=uint16"),
        (torch.tensor([31, 1], dtype=torch.uint8).view(torch.bits8), "[0x1f, 0x01] shape=(2,) dtype=bits8"),
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
