"""Running a unittest case of torch's, one at a time."""

from __future__ import annotations

import unittest
from pathlib import Path

from benchmarks import bodies


class Running:
    """A test class whose one test is run again and again."""

    def __init__(self, test_class: type[unittest.TestCase]) -> None:
        self.test_class = test_class

    def case(self, directory: Path) -> list[float]:
        """Run the test."""
        result = unittest.TestResult()
        self.test_class("test_body").run(result)
        for _, text in [*result.errors, *result.failures, *result.skipped]:
            raise RuntimeError(text)
        return bodies.seconds(directory)

    def spent(self) -> dict[str, float]:
        """Return nothing: it does not tell."""
        return {}
