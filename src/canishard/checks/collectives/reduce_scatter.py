"""reduce_scatter in both forms, each with every ReduceOp; the oracle is a chunk of the reduced stack."""

from __future__ import annotations

import torch
import torch.distributed as dist

from canishard.check import Context, check
from canishard.checks.collectives.reductions import OPS, SIZE, reduced, stacked_inputs, wrong_values


@check(
    feature="reduce_scatter",
    params=OPS,
    needs=["torch.distributed.reduce_scatter"],
    rests_on=["canary.all_reduce"],
)
def reduce_scatter(context: Context, op: str) -> None:
    """reduce_scatter (list form) gives each rank its chunk of the reduction."""
    stack = stacked_inputs(op, context.world_size, SIZE * context.world_size)
    chunks = [chunk.to(context.device) for chunk in stack[context.rank].chunk(context.world_size)]
    output = torch.empty_like(chunks[0])
    dist.reduce_scatter(output, chunks, op=getattr(dist.ReduceOp, op.upper()))
    compare_chunk(context, op, stack, output)


@check(
    feature="reduce_scatter_tensor",
    params=OPS,
    needs=["torch.distributed.reduce_scatter_tensor"],
    rests_on=["canary.all_reduce"],
)
def reduce_scatter_tensor(context: Context, op: str) -> None:
    """reduce_scatter_tensor gives each rank its chunk of the reduction."""
    stack = stacked_inputs(op, context.world_size, SIZE * context.world_size)
    output = torch.empty(SIZE, dtype=stack.dtype, device=context.device)
    own = stack[context.rank].to(context.device)
    dist.reduce_scatter_tensor(output, own, op=getattr(dist.ReduceOp, op.upper()))
    compare_chunk(context, op, stack, output)


def compare_chunk(context: Context, op: str, stack: torch.Tensor, output: torch.Tensor) -> None:
    """Compare what a rank got with its chunk of the oracle's reduction."""
    columns = stack.chunk(context.world_size, dim=1)
    mine, following = columns[context.rank], columns[(context.rank + 1) % context.world_size]
    misplaced = {"the next rank's chunk": reduced(op, following)}
    wrong = wrong_values(op, mine, context.rank) | misplaced
    context.equal("chunk", output, reduced(op, mine), wrong=wrong)
