"""torch.multiprocessing.spawn for every case, joined by a file: what many projects' own helpers do."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks import bodies
from benchmarks.harnesses import WORLD_SIZE


def _rank(rank: int, rendezvous: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD_SIZE)
    bodies.run(rank, WORLD_SIZE)
    dist.destroy_process_group()


class Running:
    """Nothing is kept from case to case."""

    def case(self, directory: Path) -> list[float]:
        """Spawn the ranks and join them."""
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(_rank, args=(f"{folder}/rendezvous",), nprocs=WORLD_SIZE)
        return bodies.seconds(directory)

    def spent(self) -> dict[str, float]:
        """Return nothing: it does not tell."""
        return {}


@contextlib.contextmanager
def opened(body: str, start_method: str) -> Iterator[Running]:  # noqa: ARG001 - the environment names the body
    """Yield what spawns."""
    yield Running()
