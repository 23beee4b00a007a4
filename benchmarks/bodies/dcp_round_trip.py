"""A sharded tensor saved as a distributed checkpoint and loaded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

ROWS, WIDTH = 7, 16


def body(rank: int, world_size: int, directory: Path) -> tuple[Any, Any]:  # noqa: ARG001 - all bodies take it
    """Save rows that do not divide by the number of ranks, load them into zeros, and put them together."""
    mesh = init_device_mesh("cpu", (world_size,))
    wanted = torch.arange(1.0, ROWS * WIDTH + 1).reshape(ROWS, WIDTH)
    path = str(directory / "checkpoint")
    dcp.save({"weight": distribute_tensor(wanted, mesh, [Shard(0)]), "step": 3}, checkpoint_id=path)
    state = {"weight": distribute_tensor(torch.zeros(ROWS, WIDTH), mesh, [Shard(0)]), "step": 0}
    dcp.load(state, checkpoint_id=path)
    return {"weight": state["weight"].full_tensor(), "step": state["step"]}, {"weight": wanted, "step": 3}
