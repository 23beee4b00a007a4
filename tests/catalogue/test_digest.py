"""Changing anything that a check reaches changes its digest; changing anything else does not."""

from __future__ import annotations

import pytest
from catalogue.sources_of import CHECK, DECLARE, Files

from canishard.catalogue import digest as module
from canishard.catalogue import sources
from canishard.catalogue.digest import digest

SOURCE = '''"""Checks."""
from __future__ import annotations

import torch
from canishard.check import Context, check, scaled
from canishard.checks import tables as t
from canishard.checks.models import network as net, unused

SIZE, OTHER = 3, 4
T = {"a": 1}
LOOK = tuple(T)
NEEDS = ["torch.a"]
LABELS = ["x"]
ELSEWHERE = torch.arange(3)


def helper(OTHER, mark="#"):
    """Help."""
    return net() + SIZE + T["a"] + t.VALUE


def alone():
    return OTHER + unused()


class Model(torch.nn.Module):
    """A model."""

    scale = 1


@check(feature="a", needs=NEEDS, rests_on=LABELS)
def first(context: Context):
    """First."""
    # why
    context.equal(helper(1), Model.scale, "text # no comment")


@check(feature="b", needs=NEEDS)
def second(context: Context):
    return ELSEWHERE
'''
MODELS = '''"""Models."""
import torch

WIDTH = 2
DEPTH = 3


def network():
    return WIDTH


def unused():
    return DEPTH
'''
TABLES = "VALUE = 1\nSPARE = 2\n"


def digests(ours: Files, source: str = SOURCE, **others: str) -> tuple[str, str]:
    texts = {"check": CHECK, "declare": DECLARE, "checks__models": MODELS, "checks__tables": TABLES, **others}
    ours.write(**texts, checks__family__topic=source)
    path = ours.path("checks__family__topic")
    return digest(path, "first"), digest(path, "second")


CHANGES = [
    # What changes, into what, and which of the two digests follow.
    ("return net() + SIZE", "return net() - SIZE", "first"),
    ("SIZE, OTHER = 3, 4", "SIZE, OTHER = 4, 4", "first"),
    ('T = {"a": 1}', 'T = {"a": 2}', "first"),
    ('mark="#"', 'mark="##"', "first"),
    ('"text # no comment"', '"text # another"', "first"),
    ("    scale = 1", "    scale = 2", "first"),
    ("class Model(torch.nn.Module)", "class Model(torch.nn.ReLU)", "first"),
    ("needs=NEEDS, rests_on", "needs=NEEDS, deadline_s=9, rests_on", "first"),
    ('["torch.a"]', '["torch.b"]', "first second"),
    ("torch.arange(3)", "torch.arange(4)", "second"),
    ("return ELSEWHERE", "return -ELSEWHERE", "second"),
    ("import network as net, unused", "import unused as net, unused", "first"),
    # What stands at the top level besides, and is run there.
    ("\n\ndef helper", '\nT["b"] = 2\n\ndef helper', "first"),
    ("\n\ndef helper", '\ndel T["b"]\n\ndef helper', "first"),
    ("\n\ndef helper", '\nT["b"] += 2\n\ndef helper', "first"),
    ("\n\ndef helper", '\nT["b"].c = 2\n\ndef helper', "first"),
    ("\n\ndef helper", "\nold = T.pop('a')\n\ndef helper", "first"),
    ("\n\ndef helper", "\nold = torch.mend(T)\n\ndef helper", "first"),
    ("\n\ndef helper", "\nalias = T\nalias['b'] = 3\n\ndef helper", "first"),
    ("\n\ndef helper", "\nalias = [T]\nalias[0]['b'] = 3\n\ndef helper", "first"),
    ("\n\ndef helper", "\nt.VALUE = 3\n\ndef helper", "first"),
    ("\n\ndef helper", "\nSIZE += 1\n\ndef helper", "first"),
    ("\n\ndef helper", "\nSIZE: int = 1\n\ndef helper", "first"),
    ("\n\ndef helper", "\ndel SIZE\n\ndef helper", "first"),
    ("\n\ndef helper", "\nprint(SIZE := 5) if LOOK else None\n\ndef helper", "first second"),
    ("\n\ndef helper", "\nfor key in LOOK:\n    T[key] = 2\n\ndef helper", "first"),
    ("\n\ndef helper", "\nfor SIZE in LOOK:\n    pass\n\ndef helper", "first"),
    ("\n\ndef helper", "\nif LOOK:\n    SIZE = 2\n\ndef helper", "first"),
    ("\n\ndef helper", "\nwith torch.no_grad():\n    SIZE = 2\n\ndef helper", "first"),
    ("\n\ndef helper", "\nwith torch.changed(T):\n    pass\n\ndef helper", "first"),
    ("\n\ndef helper", "\nwhile LOOK:\n    SIZE = 2\n\ndef helper", "first"),
    ("\n\ndef helper", "\ntry:\n    from torch import new as net\nexcept ImportError:\n    pass\n\ndef helper", "first"),
    ('\n\n@check(feature="a"', '\n\nif LOOK:\n    def helper(OTHER):\n        return 1\n\n@check(feature="a"', "first"),
    ('\n\n@check(feature="a"', '\n\nModel.scale = 2\n\n@check(feature="a"', "first"),
    ('\n\n@check(feature="a"', '\n\nhelper.calls = 2\n\n@check(feature="a"', "first"),
    ('\n\n@check(feature="a"', '\n\nhelper = alone\n\n@check(feature="a"', "first"),
    ('\n\n@check(feature="a"', '\n\n@helper.register\ndef more():\n    pass\n\n@check(feature="a"', "first"),
    (
        '\n\n@check(feature="a"',
        '\n\ndef put(key):\n    global SIZE\n    SIZE = key\n\nseen = put(5)\n\n@check(feature="a"',
        "first",
    ),
    (
        '\n\n@check(feature="a"',
        "\n\ndef put(function):\n    T['f'] = function\n    return function\n\n@put\ndef more():\n    pass\n\n@check(feature=\"a\"",
        "first",
    ),
    ("\n\ndef helper", "\nT = other = {}\nother['b'] = 3\n\ndef helper", "first"),
    ("\n\ndef helper", "\nfor row in T.values():\n    row.x = 3\n\ndef helper", "first"),
    ("\n\ndef helper", "\nseen = [row.clear() for row in (T,)]\n\ndef helper", "first"),
    (
        '\n\n@check(feature="a"',
        "\n\ndef put():\n    own = T\n    own['a'] = 2\n\nseen = put()\n\n@check(feature=\"a\"",
        "first",
    ),
    (
        "\n\nclass Model(torch.nn.Module)",
        "\n\nclass Base:\n    def __init_subclass__(cls):\n        T['c'] = cls\n\nclass Sub(Base): pass\n\nclass Model(torch.nn.Module)",
        "first",
    ),
    # Run for its effect alone: whatever it is, both may see it.
    ("\n\ndef helper", "\ntorch.set_default_dtype(torch.float64)\n\ndef helper", "first second"),
    ("\n\ndef helper", "\ntorch.backends.x = 1\n\ndef helper", "first second"),
    ("\n\ndef helper", "\nassert LOOK\n\ndef helper", "first second"),
    ("\n\ndef helper", "\nglobals()['SIZE'] = 1\n\ndef helper", "first second"),
    ("\n\ndef helper", "\nimport another\n\ndef helper", "first second"),
    ("\n\ndef helper", "\nx = setattr(torch, 'a', 1)\n\ndef helper", "first second"),
    # What only labels, what is not reached, and what is no code.
    ('feature="a"', 'feature="another"', ""),
    ('["x"]', '["y"]', ""),
    ('feature="b"', 'feature="b", world_sizes=(4,), slow=True, params={"n": (1,)}', ""),
    ("return OTHER + unused()", "return OTHER - unused()", ""),
    ('"""First."""', '"""Another title,\n\n    and more.\n    """', ""),
    ('"""A model."""', '"""Another."""', ""),
    ('"""Help."""\n', "", ""),
    ("    # why\n", "", ""),
    ("# why", "# because, 'of' \"it\"", ""),
    ('"""Checks."""', '"""Other words."""', ""),
    ("\n\n@check", "\n\n\n\n@check", ""),
    ("return net() + SIZE", "return (\n        net()  # in lines\n        + SIZE)", ""),
    ("SIZE, OTHER = 3, 4", "SIZE, OTHER = (3, 4)", ""),
    ("\n\ndef helper", "\nMORE = tuple(T)\nLONG = torch.arange(SIZE)\n\ndef helper", ""),
    ("\n\ndef helper", "\nMORE = {}\nMORE['a'] = 1\n\ndef helper", ""),
    ("\n\ndef helper", "\nfrom torch import nn\nMORE = nn.Linear\n\ndef helper", ""),
    ('\n\n@check(feature="b"', '\n\nclass More(Model):\n    SIZE = 2\n\n@check(feature="b"', ""),
    ('\n\n@check(feature="b"', '\n\n@check(feature="c", needs=NEEDS)\ndef third(c): pass\n\n@check(feature="b"', ""),
]  # fmt: skip


def follow(before: tuple[str, str], after: tuple[str, str]) -> str:
    return " ".join(
        name for name, old, new in zip(("first", "second"), before, after, strict=True) if old != new
    )


@pytest.mark.parametrize(
    ("old", "new", "wanted"), CHANGES, ids=[" ".join(new.split())[:60] for _, new, _ in CHANGES]
)
def test_what_a_check_reaches_of_its_file_counts_and_nothing_else(
    ours: Files, old: str, new: str, wanted: str
) -> None:
    assert old in SOURCE

    assert follow(digests(ours), digests(ours, SOURCE.replace(old, new))) == wanted


@pytest.mark.parametrize(
    ("name", "old", "new", "wanted"),
    [
        ("checks__models", "WIDTH = 2", "WIDTH = 3", "first"),
        ("checks__models", "DEPTH = 3", "DEPTH = 4", ""),
        ("checks__models", "DEPTH = 3", "DEPTH = 3\ntorch.manual_seed(1)", "first second"),
        ("checks__models", "WIDTH = 2", "from canishard.checks.tables import VALUE as WIDTH", "first"),
        (
            "checks__models",
            "    return WIDTH",
            "    from canishard.checks.tables import SPARE\n    return SPARE",
            "first",
        ),
        ("checks__tables", "VALUE = 1", "VALUE = 2", "first"),
        ("checks__tables", "SPARE = 2", "SPARE = 3", ""),
        ("checks__models", "DEPTH = 3", "from canishard.checks import tables\ntables.VALUE = 3", "first"),
        ("check", "LIMIT = 1", "LIMIT = 2", "first second"),
        ("check", "return compare()", "return compare() + 1", "first second"),
        ("check", "    return tree", "    return tree * 2", ""),
        ("declare", "lambda function: function", "lambda function: str(function)", ""),
        ("declare", '"""Words."""', '"""Others."""', ""),
        ("declare", "class Row:", "class Row(dict):", ""),
    ],
)
def test_what_a_check_reaches_of_shared_files_counts_and_nothing_else(
    ours: Files, name: str, old: str, new: str, wanted: str
) -> None:
    text = {"checks__models": MODELS, "checks__tables": TABLES, "check": CHECK, "declare": DECLARE}[name]
    assert old in text

    assert follow(digests(ours), digests(ours, **{name: text.replace(old, new)})) == wanted


def test_what_a_check_takes_of_the_shared_module_counts(ours: Files) -> None:
    source = SOURCE.replace("return ELSEWHERE", "return scaled(ELSEWHERE)")
    before = digests(ours, source)

    after = digests(ours, source, check=CHECK.replace("    return tree", "    return tree * 2"))

    assert follow(before, after) == "second"


def test_the_order_of_what_is_run_counts(ours: Files) -> None:
    text = SOURCE.replace("LOOK =", 'T["b"] = 1\nT["b"] = 2\nLOOK =')

    turned = text.replace('T["b"] = 1\nT["b"] = 2\n', 'T["b"] = 2\nT["b"] = 1\n')

    assert follow(digests(ours, text), digests(ours, turned)) == "first"


def test_a_row_s_own_parameters_count(ours: Files) -> None:
    digests(ours)
    path = ours.path("checks__family__topic")
    given: list[dict[str, object]] = [{}, {"n": 1}, {"n": "1"}, {"n": True}, {"n": 2}, {"m": 1}]

    assert len({digest(path, "first", params) for params in given}) == len(given)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "from canishard.checks.models import *",
            "topic.py:1: from canishard.checks.models import *: nobody can tell",
        ),
        ("from torch.nn import *", "topic.py:1: from torch.nn import *: nobody can tell what that brings"),
        (
            "import canishard.checks.models",
            "topic.py:1: import canishard.checks.models: write `from ... import`",
        ),
    ],
)
def test_an_import_that_cannot_be_followed_is_refused(ours: Files, line: str, said: str) -> None:
    with pytest.raises(sources.Unreadable) as raised:
        digests(ours, f"{line}\n{SOURCE}")

    assert str(raised.value).startswith(said)


def test_a_digest_is_sixteen_hex_digits(ours: Files) -> None:
    found = digests(ours)[0]

    assert (len(found), int(found, 16) >= 0) == (16, True)


def test_the_same_source_has_the_same_digest_for_ever(ours: Files) -> None:
    """Another digest has every check measured again, on every release; and it is the same on every Python."""
    assert digests(ours) == ("a3184bfab64013ad", "08f48e55bbc0a27d")


def test_a_normal_form_depends_on_nothing_but_the_code(ours: Files) -> None:
    ours.write(checks__family__topic="def f(x: int = 1):\n    '''Words.'''\n    return x in {'a'}\n")
    (statement,) = sources.read(ours.path("checks__family__topic")).statements

    assert module.normal_form(statement) == (
        "FunctionDef(name='f',args=arguments(args=[arg(arg='x',annotation=Name(id='int'))],defaults=[int:1]),"
        "body=[Return(value=Compare(left=Name(id='x'),ops=[In()],comparators=[Set(elts=[str:'a'])]))])"
    )
