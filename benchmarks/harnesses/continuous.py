"""torch's MultiProcContinuousTest: one set of ranks and one process group for all tests of a class."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.testing._internal import common_distributed

from benchmarks import bodies
from benchmarks.harnesses import WORLD_SIZE
from benchmarks.harnesses.torch_tests import Running

# The second spelling is the older one.
_NAMES = ("MultiProcContinuousTest", "MultiProcContinousTest")
_Base: Any = next(getattr(common_distributed, name) for name in _NAMES if hasattr(common_distributed, name))


class BodyTest(_Base):
    """The test."""

    world_size = WORLD_SIZE

    @classmethod
    def backend_str(cls) -> str:
        """Return the backend."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """Return the device, also where there is an accelerator."""
        return "cpu"

    def test_body(self) -> None:
        """Run the body, on each rank."""
        bodies.run(self.rank, WORLD_SIZE)


@contextlib.contextmanager
def opened(body: str, start_method: str) -> Iterator[Running]:  # noqa: ARG001 - the environment names the body
    """Yield the class between its fixtures."""
    BodyTest.setUpClass()
    try:
        yield Running(BodyTest)
    finally:
        BodyTest.tearDownClass()
