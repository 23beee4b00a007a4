"""One backward of a sharded network has the gradients of one process on the whole batch."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import mse_loss

from canishard.check import Context, check, scaled
from canishard.checks.fsdp2.networks import Tensors, batch, full, gradients_of, network, part, sharded
from canishard.checks.names import FORCE_SUM, FULLY_SHARD

REDUCE_SCATTER = "collectives.reduce_scatter_tensor[op=avg]"


def norm(tree: Tensors) -> float:
    """Return the norm of all elements together."""
    return float(torch.cat([tensor.flatten() for tensor in tree.values()]).norm())


def compare_gradients(context: Context, model: Any) -> None:
    """Run one backward on this rank's share of the batch; compare with the gradients of the whole batch."""
    whole, rank, world_size = batch(context), context.rank, context.world_size
    x, y = part(whole, rank, world_size)
    mse_loss(model(x), y).backward()
    got, wanted = full(model, gradients=True), gradients_of(network(context), whole)
    context.measure("gradient_norm_ratio", norm(got) / norm(wanted))
    wrong = {
        "summed instead of averaged": scaled(wanted, world_size),
        "averaged twice": scaled(wanted, 1 / world_size),
        "this rank's alone": gradients_of(network(context), (x, y)),
        "rank 0's alone": gradients_of(network(context), part(whole, 0, world_size)),
    }
    context.equal("gradients", got, wanted, wrong=wrong)


@check(feature="fully_shard", params={"reduce": ("default",)}, needs=[FULLY_SHARD], rests_on=[REDUCE_SCATTER])
def gradients(context: Context, reduce: str) -> None:
    """Gradients of one backward equal those of one process on the whole batch."""
    compare_gradients(context, sharded(context))


@check(feature="fully_shard", subject="gradients", workaround="force_sum", needs=[FULLY_SHARD, FORCE_SUM])
def gradients_force_sum(context: Context) -> None:
    """Gradients equal one process's on the whole batch, with set_force_sum_reduction_for_comms(True)."""
    compare_gradients(context, sharded(context, force_sum=True))
