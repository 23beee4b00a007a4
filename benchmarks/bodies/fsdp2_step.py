"""A training step under fully_shard, beside the same step in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss

WIDTH, BATCH = 32, 8


def network() -> nn.Sequential:
    """Return the same unsharded network on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4)))


def step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """Take one step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-5)
    mse_loss(model(x), y).backward()
    optimizer.step()


def body(rank: int, world_size: int, directory: Path) -> tuple[Any, Any]:  # noqa: ARG001 - all bodies take it
    """Step once on this rank's share of the batch, and on the whole batch without sharding."""
    x, y = torch.randn(2, BATCH, WIDTH, generator=torch.Generator().manual_seed(1))
    share = BATCH // world_size
    own = slice(rank * share, (rank + 1) * share)
    oracle, model = network(), network()
    step(oracle, x, y)
    mesh = init_device_mesh("cpu", (world_size,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    step(model, x[own], y[own])
    got = {name: parameter.full_tensor().detach() for name, parameter in model.named_parameters()}
    return got, {name: parameter.detach() for name, parameter in oracle.named_parameters()}
