"""The bodies as checks, for the launcher."""

from __future__ import annotations

from benchmarks import bodies
from canishard.check import Context, check


def _run(context: Context, name: str) -> None:
    body = bodies.find(name)  # Here, so that a case pays for its own imports alone.
    got, wanted, seconds = bodies.timed(body, context.rank, context.world_size, context.directory)
    context.equal("result", got, wanted)
    context.measure("seconds", seconds)


@check(feature="bench", world_sizes=(2,))
def all_reduce(context: Context) -> None:
    """Sum one number a rank."""
    _run(context, "all_reduce")


@check(feature="bench", world_sizes=(2,))
def fsdp2_step(context: Context) -> None:
    """Take a step under fully_shard."""
    _run(context, "fsdp2_step")


@check(feature="bench", world_sizes=(2,))
def dcp_round_trip(context: Context) -> None:
    """Save and load a checkpoint."""
    _run(context, "dcp_round_trip")
