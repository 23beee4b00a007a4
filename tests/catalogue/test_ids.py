"""Patterns over case ids."""

from __future__ import annotations

import re

import pytest

from canishard.catalogue import ids

SGD = "fsdp2.train[optimizer=sgd]"


@pytest.mark.parametrize(
    ("pattern", "case_id", "wanted"),
    [
        (SGD, SGD, True),
        (SGD, "fsdp2.train[optimizer=sgd]+force_sum", False),
        ("fsdp2.*", SGD, True),
        ("fsdp2.train[*]", SGD, True),
        ("fsdp2.train[optimizer=???]", SGD, True),
        ("fsdp2.train[optimizer=??]", SGD, False),
        ("*+force_sum", "fsdp2.gradients+force_sum", True),
        # Brackets stand for themselves: as a set of characters this would match fsdp2.tr.
        ("fsdp2.t[a-z]", "fsdp2.tr", False),
        ("dcp.?", "dcp.", False),
        ("dcp+x", "dcpp+x", False),
    ],
)
def test_matches(pattern: str, case_id: str, wanted: bool) -> None:
    assert ids.matches(pattern, case_id) is wanted


def test_matching_keeps_the_order_of_the_ids() -> None:
    assert ids.matching(["b.*", "a.*"], ["a.x", "c.x", "b.x"]) == ["a.x", "b.x"]


def test_family_is_what_stands_before_the_first_point() -> None:
    assert ids.family("dcp.resume[saved=4,loaded=2]") == "dcp"


@pytest.mark.parametrize("case_id", ["a b", "a`b", "a|b", "a<b", "a>b", "a\\b", "a\nb", ""])
def test_unsafe_ids(case_id: str) -> None:
    assert not re.search(ids.SAFE, case_id)


@pytest.mark.parametrize(
    ("case_id", "name", "family", "workaround"),
    [
        ("pp.gpipe", "pp.gpipe", "pp", ""),
        ("fsdp2.train[optimizer=sgd]", "fsdp2.train", "fsdp2", ""),
        ("fsdp2.train[optimizer=a.b+c]+force_sum", "fsdp2.train", "fsdp2", "force_sum"),
        ("fsdp2.gradients+force_sum", "fsdp2.gradients", "fsdp2", "force_sum"),
        ("ops.sum[a=b+\nc]+x", "ops.sum", "ops", "x"),
    ],
)
def test_the_parts_of_an_id(case_id: str, name: str, family: str, workaround: str) -> None:
    assert (ids.name(case_id), ids.family(case_id), ids.workaround(case_id)) == (name, family, workaround)


@pytest.mark.parametrize(
    ("row_id", "slug"),
    [
        ("fsdp2.train[optimizer=sgd]+force_sum", "fsdp2.train-optimizer~sgd-+force_sum"),
        ("dcp.resume[saved=4,loaded=2]", "dcp.resume-saved~4~~loaded~2"),
        ("X_Y.z[a=/]", "X_Y.z-a~~2f"),
        ("a.b[c=\t]+d", "a.b-c~~09-+d"),
        ("a.X", "a.X"),
    ],
)
def test_a_slug_is_a_file_s_name(row_id: str, slug: str) -> None:
    assert ids.slug(row_id) == slug
