"""A DTensor moved from one placement to another, or put together; all of it bit-exact."""

from __future__ import annotations

from canishard.check import Context, check
from canishard.checks.dtensor.layouts import as_placement, held, made, whole, wrong_values
from canishard.checks.names import DTENSOR, PARTIAL, REPLICATE, SHARD

PLACEMENTS = [DTENSOR, SHARD, REPLICATE, PARTIAL]


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
