"""The canary: where this fails, the ranks cannot talk at all and a record says nothing about torch."""

from __future__ import annotations

import torch
import torch.distributed as dist

from canishard.check import Context, check


@check(feature="all_reduce")
def all_reduce(context: Context) -> None:
    """Ranks meet, and sum one number each."""
    numbers = [torch.tensor([rank + 1.0]) for rank in range(context.world_size)]
    tensor = numbers[context.rank].to(context.device, copy=True)
    dist.all_reduce(tensor)
    context.equal("sum", tensor, sum(numbers), wrong={"unchanged input": numbers[context.rank]})
