"""DTensor: how a tensor is laid out over ranks and moved between layouts; all of it bit-exact."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh

from canishard.check import Context, check

DTENSOR = ("torch.distributed.tensor.DTensor", "torch.distributed._tensor.DTensor")
SHARD = ("torch.distributed.tensor.Shard", "torch.distributed._tensor.Shard")
REPLICATE = ("torch.distributed.tensor.Replicate", "torch.distributed._tensor.Replicate")
PARTIAL = ("torch.distributed.tensor.Partial", "torch.distributed._tensor.Partial")
DISTRIBUTE = ("torch.distributed.tensor.distribute_tensor", "torch.distributed._tensor.distribute_tensor")
PLACEMENTS = [DTENSOR, SHARD, REPLICATE, PARTIAL]


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


@check(feature="distribute_tensor", params={"to": ("shard0", "shard1")}, needs=[DISTRIBUTE, SHARD])
def distribute_tensor(context: Context, to: str) -> None:
    """distribute_tensor leaves each rank its slice of the tensor."""
    mesh = init_device_mesh(context.device.type, (context.world_size,))
    tensor = whole(context.world_size)
    got = context.api.distribute_tensor(tensor.to(context.device), mesh, [as_placement(context, to)])
    wrong = {"the whole tensor": tensor} | wrong_values(context, "replicate", to)
    context.equal("local part", got.to_local(), held(context, to), wrong=wrong, exact=True)


@check(
    feature="redistribute",
    params={"from": ("shard0", "shard1", "partial"), "to": ("replicate", "shard0", "shard1")},
    needs=PLACEMENTS,
    rests_on=["canary.all_reduce", "collectives.reduce_scatter_tensor[op=sum]"],
)
def redistribute(context: Context, **placements: str) -> None:
    """Redistribute moves a tensor to another placement."""
    source, target = placements["from"], placements["to"]
    got = made(context, source).redistribute(placements=[as_placement(context, target)])
    wrong = wrong_values(context, source, target)
    context.equal("local part", got.to_local(), held(context, target), wrong=wrong, exact=True)


@check(
    feature="full_tensor",
    params={"from": ("shard0", "shard1", "partial")},
    needs=PLACEMENTS,
    rests_on=["canary.all_reduce"],
)
def full_tensor(context: Context, **placements: str) -> None:
    """full_tensor gives every rank the whole tensor."""
    source = placements["from"]
    got = made(context, source).full_tensor()
    wrong = wrong_values(context, source, "replicate")
    context.equal("whole tensor", got, whole(context.world_size), wrong=wrong, exact=True)
