"""torch's MultiProcessTestCase: the ranks of every test are spawned, and polled every tenth of a second."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase

from benchmarks import bodies
from benchmarks.harnesses import WORLD_SIZE
from benchmarks.harnesses.torch_tests import Running


class BodyTest(MultiProcessTestCase):
    """The test."""

    @property
    def world_size(self) -> int:
        """Return how many ranks there are; the base class asks."""
        return WORLD_SIZE

    def setUp(self) -> None:
        """Spawn the ranks, as each of torch's test classes does."""
        super().setUp()
        self._spawn_processes()

    def test_body(self) -> None:
        """Join the group and run the body, on each rank."""
        store = dist.FileStore(self.file_name, WORLD_SIZE)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=WORLD_SIZE)
        bodies.run(self.rank, WORLD_SIZE)


@contextlib.contextmanager
def opened(body: str, start_method: str) -> Iterator[Running]:  # noqa: ARG001 - the environment names the body
    """Yield the class between its fixtures."""
    BodyTest.setUpClass()
    try:
        yield Running(BodyTest)
    finally:
        BodyTest.tearDownClass()
