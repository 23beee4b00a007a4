"""What the reducing collectives have in common: inputs, every ReduceOp's oracle, and the known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold

import torch

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
