"""What fully_shard makes of a network."""

from __future__ import annotations

import torch

from canishard.check import Context, check
from canishard.checks.fsdp2.networks import network, plain, sharded
from canishard.checks.names import DTENSOR, FSDP_MODULE, FULLY_SHARD, SHARD


@check(feature="fully_shard", needs=[FULLY_SHARD, FSDP_MODULE, DTENSOR, SHARD])
def sharding(context: Context) -> None:
    """Parameters are DTensors placed Shard(0), and each rank holds its rows of them."""
    model, api = sharded(context), context.api
    named, whole = dict(model.named_parameters()), plain(network(context))
    modules = [isinstance(module, api.FSDPModule) for module in (*model.blocks, model)]
    context.equal("modules are FSDPModule", modules, [True] * len(modules))
    context.equal("parameters are DTensors", all(isinstance(p, api.DTensor) for p in named.values()), True)
    shards = all(p.placements == (api.Shard(0),) for p in named.values())
    context.equal("placed Shard(0)", shards, True)
    held = {name: p.to_local() for name, p in named.items()}
    rows = {name: rows_of(tensor, context.rank, context.world_size) for name, tensor in whole.items()}
    context.equal("rows held", held, rows, wrong={"the whole parameters": whole}, exact=True)
    share = sum(p.numel() for p in held.values()) / sum(p.numel() for p in whole.values())
    context.measure("share_held", share)


def rows_of(tensor: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """Return a rank's rows under Shard(0); where rows are few the last ranks have none."""
    chunks = tensor.chunk(world_size)
    return chunks[rank] if rank < len(chunks) else tensor[:0]
