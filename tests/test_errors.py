"""Exit codes mean one thing each."""

from __future__ import annotations

from collections import Counter

import pytest

from canishard import errors
from canishard.errors import CanishardError

PYTESTS = set(range(6))


def kinds() -> list[type[CanishardError]]:
    found = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CanishardError)
    ]
    return [kind for kind in found if kind is not CanishardError]


def test_exit_codes_are_unique() -> None:
    codes = Counter(kind.exit_code for kind in kinds())
    assert [code for code, number in codes.items() if number > 1] == []
    assert CanishardError.exit_code not in codes


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_exit_code_is_pytests_only_where_it_means_the_same(kind: type[CanishardError]) -> None:
    shared = {"ConfigurationError": 2, "NothingSelectedError": 5}
    assert kind.exit_code not in PYTESTS or shared[kind.__name__] == kind.exit_code


def test_every_way_to_fail_has_its_code() -> None:
    assert {kind.__name__: kind.exit_code for kind in kinds()} == {
        "ConfigurationError": 2,
        "NothingSelectedError": 5,
        "ChangedError": 10,
        "InfraError": 11,
        "RecordError": 12,
        "StaleReportError": 13,
        "DiskSpaceError": 14,
    }
