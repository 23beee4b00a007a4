"""Reducing collectives, each with every ReduceOp; the oracle reduces a stack of plain tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold

import torch
import torch.distributed as dist

from canishard.check import Context, check

Reduction = Callable[[torch.Tensor], torch.Tensor]
NUMERIC: dict[str, Reduction] = {
    "sum": lambda stack: stack.sum(0),
    "avg": lambda stack: stack.mean(0),
    "product": lambda stack: stack.prod(0),
    "min": lambda stack: stack.amin(0),
    "max": lambda stack: stack.amax(0),
}
BITWISE: dict[str, Reduction] = {
    "band": lambda stack: fold(torch.bitwise_and, stack),
    "bor": lambda stack: fold(torch.bitwise_or, stack),
    "bxor": lambda stack: fold(torch.bitwise_xor, stack),
}
OPS = {"op": (*NUMERIC, *BITWISE)}
SIZE = 6


def stacked_inputs(op: str, world_size: int, size: int = SIZE) -> torch.Tensor:
    """Return every rank's input, a row each: whole numbers, float32 or for a bitwise op int64."""
    generator = torch.Generator().manual_seed(7)
    stack = torch.randint(1, 100, (world_size, size), generator=generator)
    return stack if op in BITWISE else stack.float()


def reduced(op: str, stack: torch.Tensor) -> torch.Tensor:
    """Reduce the rows of a stack in this process: the oracle."""
    return (NUMERIC | BITWISE)[op](stack)


def wrong_values(op: str, stack: torch.Tensor, rank: int) -> dict[str, torch.Tensor]:
    """Return what a rank would get from each mistake that has a name."""
    other_ops = [*BITWISE, "sum", "product", "min", "max"] if op in BITWISE else [*NUMERIC]
    values = {f"{other} instead of {op}": reduced(other, stack) for other in other_ops if other != op}
    return values | {"unchanged input": stack[rank], "rank 0's value": stack[0]}


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
