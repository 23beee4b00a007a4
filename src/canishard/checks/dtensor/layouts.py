"""One tensor under every placement: what a rank holds of it, torch's objects for it, and the known mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh

from canishard.check import Context


def addend(rank: int) -> torch.Tensor:
    """Return what one rank adds to a Partial tensor: whole numbers, exact in float32, other on each rank."""
    return torch.arange(1.0, 33.0).reshape(8, 4) * (rank + 1) ** 2


def whole(world_size: int) -> torch.Tensor:
    """Return the logical tensor of every check here."""
    return torch.stack([addend(rank) for rank in range(world_size)]).sum(0)


def placed(tensor: torch.Tensor, placement: str, rank: int, world_size: int) -> torch.Tensor:
    """Return what a rank holds of a plain tensor under a placement other than partial: the oracle."""
    if placement == "replicate":
        return tensor
    return tensor.chunk(world_size, dim=int(placement.removeprefix("shard")))[rank].contiguous()


def as_placement(context: Context, placement: str) -> Any:
    """Return torch's object for a placement's name."""
    if placement.startswith("shard"):
        return context.api.Shard(int(placement.removeprefix("shard")))
    return context.api.Replicate() if placement == "replicate" else context.api.Partial()


def held(context: Context, placement: str) -> torch.Tensor:
    """Return the plain tensor that a rank starts with under a placement."""
    if placement == "partial":
        return addend(context.rank)
    return placed(whole(context.world_size), placement, context.rank, context.world_size)


def made(context: Context, placement: str) -> Any:
    """Return the DTensor of ``whole`` under a placement, put together without communication."""
    mesh = init_device_mesh(context.device.type, (context.world_size,))
    local = held(context, placement).to(context.device)
    return context.api.DTensor.from_local(local, mesh, [as_placement(context, placement)], run_check=False)


def wrong_values(context: Context, source: str, target: str) -> dict[str, torch.Tensor]:
    """Return what a rank would hold after each mistake that has a name."""
    rank, world_size, tensor = context.rank, context.world_size, whole(context.world_size)
    values = {"neighbour's share": placed(tensor, target, (rank + 1) % world_size, world_size)}
    if source == "partial":
        values["not reduced"] = placed(addend(rank), target, rank, world_size)
        values["averaged instead of summed"] = placed(tensor / world_size, target, rank, world_size)
    else:
        values["unchanged input"] = held(context, source)
    wanted = placed(tensor, target, rank, world_size)
    return {name: value for name, value in values.items() if not torch.equal(value, wanted)}
