"""A sharded network trains as one process does on whole batches, whatever the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from canishard.check import Context, Row, check
from canishard.checks.fsdp2.networks import (
    STEPS,
    Batch,
    Tensors,
    batch,
    full,
    network,
    part,
    plain,
    sgd,
    sharded,
    train,
)
from canishard.checks.names import FORCE_SUM, FULLY_SHARD


class Optimizer(NamedTuple):
    """How an optimizer is made, and how far apart rounding may drive what it trained."""

    make: Callable[..., torch.optim.Optimizer]
    atol: float


OPTIMIZERS = {
    "sgd": Row(recipe=Optimizer(sgd, atol=1e-6)),
    # AdamW divides by the gradient's own size, so that a wrong factor shows only where gradients are as small
    # as eps, and rounding is magnified there as well. With eps=1e-5 parameters differ by 2e-3 where gradients
    # are doubled and by 4e-6 from rounding; with the default of 1e-8 by 8e-4 and by 7e-5.
    "adamw": Row(
        recipe=Optimizer(lambda parameters: torch.optim.AdamW(parameters, lr=0.01, eps=1e-5), atol=1e-4)
    ),
}


def compare_training(context: Context, model: Any, optimizer: Optimizer) -> None:
    """Train on this rank's share of each batch; compare with one process that trains on whole batches."""
    data = [batch(context, step) for step in range(STEPS)]
    own = [part(whole, context.rank, context.world_size) for whole in data]
    train(model, optimizer.make(model.parameters()), own)

    def reference(data: list[Batch], scale: float = 1.0) -> Tensors:
        alone = network(context)
        train(alone, optimizer.make(alone.parameters()), data, scale)
        return plain(alone)

    wrong = {
        "gradients summed instead of averaged": reference(data, context.world_size),
        "trained on this rank's share alone": reference(own),
        "unchanged": plain(network(context)),
    }
    context.equal("parameters", full(model), reference(data), wrong=wrong, rtol=1e-5, atol=optimizer.atol)


@check(
    feature="fully_shard",
    subject="train",
    rows={"optimizer": OPTIMIZERS},
    needs=[FULLY_SHARD],
    rests_on=["fsdp2.gradients*"],
)
def training(context: Context, recipe: Optimizer, optimizer: str) -> None:
    """Parameters after three steps equal those of one process training on whole batches."""
    compare_training(context, sharded(context), recipe)


@check(
    feature="fully_shard",
    subject="train",
    rows={"optimizer": OPTIMIZERS},
    workaround="force_sum",
    needs=[FULLY_SHARD, FORCE_SUM],
    rests_on=["fsdp2.gradients+force_sum"],
)
def training_force_sum(context: Context, recipe: Optimizer, optimizer: str) -> None:
    """Parameters equal one process's after three steps, with set_force_sum_reduction_for_comms(True)."""
    compare_training(context, sharded(context, force_sum=True), recipe)
