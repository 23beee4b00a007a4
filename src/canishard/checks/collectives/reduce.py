"""all_reduce and reduce, each with every ReduceOp; the oracle reduces a stack of plain tensors."""

from __future__ import annotations

import torch.distributed as dist

from canishard.check import Context, check
from canishard.checks.collectives.reductions import OPS, reduced, stacked_inputs, wrong_values


@check(
    feature="all_reduce", params=OPS, needs=["torch.distributed.all_reduce"], rests_on=["canary.all_reduce"]
)
def all_reduce(context: Context, op: str) -> None:
    """all_reduce gives every rank the reduction of all inputs."""
    stack = stacked_inputs(op, context.world_size)
    tensor = stack[context.rank].to(context.device, copy=True)
    dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op.upper()))
    context.equal("result", tensor, reduced(op, stack), wrong=wrong_values(op, stack, context.rank))


@check(feature="reduce", params=OPS, needs=["torch.distributed.reduce"], rests_on=["canary.all_reduce"])
def reduce(context: Context, op: str) -> None:
    """Reduce gives the destination the reduction of all inputs, whichever rank it is."""
    stack = stacked_inputs(op, context.world_size)
    for destination in range(context.world_size):
        tensor = stack[context.rank].to(context.device, copy=True)
        dist.reduce(tensor, dst=destination, op=getattr(dist.ReduceOp, op.upper()))
        if context.rank == destination:  # What the other ranks' tensors hold is not promised.
            wrong = wrong_values(op, stack, context.rank)
            context.equal(f"result at rank {destination}", tensor, reduced(op, stack), wrong=wrong)
