"""Rows from a table: what each is called, and that each is measured for itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from catalogue.sources_of import Files

from canishard import catalogue
from canishard.catalogue import Entry
from canishard.errors import ConfigurationError

NAMES = [f"op{number}" for number in range(200)]
TABLE = "\n".join(f'    "{name}": Row(recipe=lambda x: x + {number}),' for number, name in enumerate(NAMES))
SHARED = f"""import torch
from canishard.check import Row

FACTOR, SPARE = 2, 3


def twice(x):
    return x * FACTOR


TABLE = {{
{TABLE}
    "twice": Row(recipe=twice, title="Twice", feature="mul", needs=["torch.mul"], rests_on=["a.b"], packages=["numpy"]),
    "bare": torch.neg,
}}
"""
TOPIC = '''from canishard.check import Context, check
from canishard.checks.family.table import TABLE


@check(feature="f", rows={"op": TABLE}, params={"dim": (0, 1)}, needs=["torch.add"], rests_on=["c.*"])
def pointwise(context: Context, recipe, op, dim):
    """An operator keeps its layout."""
    context.equal(recipe(dim))
'''


def digests(ours: Files, shared: str = SHARED, topic: str = TOPIC) -> dict[str, str]:
    ours.write(checks__family__table=shared, checks__family__topic=topic)
    return {row: catalogue.digest_of(entry) for row, entry in load(ours).items()}


def load(ours: Files) -> dict[str, Entry]:
    return catalogue.load(ours.folder / "checks")


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(row for row in before.keys() | after.keys() if before.get(row) != after.get(row))


def rows(*names: str) -> list[str]:
    return sorted(f"family.pointwise[op={name},dim={dim}]" for name in names for dim in (0, 1))


ADDED = '    "new": Row(recipe=lambda x: x - 1),\n    "bare"'


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('    "bare"', ADDED, ["new"]),
        ("lambda x: x + 17)", "lambda x: x + 1000)", ["op17"]),
        ('"op17": Row(recipe=lambda x: x + 17),\n', "", ["op17"]),
        ("FACTOR, SPARE = 2, 3", "FACTOR, SPARE = 3, 3", ["twice"]),
        ('needs=["torch.mul"]', 'needs=["torch.multiply"]', ["twice"]),
        ("torch.neg", "torch.abs", ["bare"]),
        ('title="Twice", feature="mul"', 'title="Two times", feature="times"', []),
        ('rests_on=["a.b"], packages=["numpy"]', 'rests_on=["a.c"]', []),
        ("TABLE = {", "# A comment.\nTABLE = {", []),
        ("TABLE = {", "TABLE: dict = {", []),
        ('    "bare"', '    # Why.\n\n    "bare"', []),
        ("    return x * FACTOR", "    return x * FACTOR * 1", ["twice"]),
        ("SPARE = 2, 3\n", 'SPARE = 2, 3\n\n\ndef other():\n    return "new"\n', []),
    ],
)
def test_a_change_of_an_entry_measures_that_entry_alone(
    ours: Files, old: str, new: str, wanted: list[str]
) -> None:
    assert old in SHARED

    assert changed(digests(ours), digests(ours, SHARED.replace(old, new))) == rows(*wanted)


@pytest.mark.parametrize(
    ("shared", "topic"),
    [
        (SHARED, TOPIC.replace("recipe(dim))", "recipe(dim) + 1)")),
        (SHARED + '\nTABLE["op3"] = None\n', TOPIC),
        (SHARED + "\nTABLE.update(x=1)\n", TOPIC),
        (SHARED + '\nOTHER = TABLE\nOTHER["op3"] = None\n', TOPIC),
        (SHARED, TOPIC.replace("\n\n@check", '\nTABLE["op3"] = None\n\n@check')),
    ],
    ids=["check", "item", "method", "other name", "other file"],
)
def test_what_all_entries_share_measures_all(ours: Files, shared: str, topic: str) -> None:
    before = digests(ours)

    assert changed(before, digests(ours, shared, topic)) == sorted(before)


def test_a_check_that_looks_at_its_whole_table_follows_all_of_it(ours: Files) -> None:
    topic = TOPIC.replace("recipe(dim))", "recipe(dim), len(TABLE))")
    before = digests(ours, topic=topic)

    after = digests(ours, SHARED.replace('    "bare"', ADDED), topic)

    assert changed(before, after) == sorted(after)


def test_an_entry_says_what_its_reader_sees(ours: Files) -> None:
    digests(ours)
    twice, bare = (load(ours)[f"family.pointwise[op={name},dim=1]"] for name in ("twice", "bare"))

    assert (twice.title, twice.feature, twice.packages) == ("Twice", "mul", ["numpy"])
    assert (twice.needs, twice.rests_on) == ([["torch.add"], ["torch.mul"]], ["c.*", "a.b"])
    assert (bare.title, bare.feature, bare.needs) == ("An operator keeps its layout", "f", [["torch.add"]])
    assert (twice.entry, twice.params, twice.module) == (
        "twice",
        {"op": "twice", "dim": 1},
        "canishard.checks.family.topic",
    )


def test_tables_may_be_put_together_of_others(ours: Files) -> None:
    shared = SHARED.replace("TABLE = {\n", 'MORE = {"a": twice, "op1": twice}\nTABLE = {\n    **MORE,\n')
    before = digests(ours, shared)

    after = digests(ours, shared.replace('{"a": twice, ', '{"a": abs, '))

    assert changed(before, after) == rows("a")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"bare":', "1:"), "topic.py:5: 1: the key of a table of rows is a text, written out"),
        (lambda text: text.replace("TABLE = {", "TABLE = dict() or {"), "TABLE: a table of rows is a dict literal"),
        (lambda text: text + "TABLE = {}\n", "TABLE: a table of rows is a dict literal that has a name, bound once"),
        (lambda text: text.replace('Row(recipe=twice, title="Twice"', "Row(twice"), "Row takes its arguments by name"),
        (lambda text: text.replace('title="Twice"', "name=1"), "unknown field `name` - at `$.rows[...][...]`"),
        (lambda text: text.replace('title="Twice"', "title=torch.x"), "torch.x: not a constant"),
        (lambda text: text.replace('title="Twice"', 'where={"dim": 2}'), "dim=2: allowed: 0, 1"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_one_line(ours: Files, change: Callable[[str], str], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        digests(ours, change(SHARED))

    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "declared", ["TABLE", '{"op": {"a": abs}}', '{"op": TABLE, "b": TABLE}', "{NAME: TABLE}"]
)
def test_rows_is_one_parameter_with_the_name_of_its_table(ours: Files, declared: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^topic\.py:5: .*(expected|a table of rows is)"):
        digests(ours, topic=TOPIC.replace('{"op": TABLE}', declared))
