"""DistributedDataParallel: gradient accumulation is what it is in one process."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from canishard.check import Context, check

WIDTH, UPDATES, SAMPLES, MAX_NORM = 8, 3, 4, 0.5


def network(context: Context) -> nn.Sequential:
    """Return a small network, equal on every rank."""
    torch.manual_seed(51)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)).to(context.device)


def stream(context: Context, rank: int) -> torch.Tensor:
    """Return a rank's samples, update by update, no two ranks' equal."""
    generator = torch.Generator().manual_seed(52 + rank)
    return torch.randn(UPDATES, SAMPLES, WIDTH, generator=generator).to(context.device)


def train(model: Any, samples: torch.Tensor, micro: int, scale: float = 1.0) -> dict[str, Any]:
    """Accumulate ``micro`` backward passes, clip, step; return the weights, and the norms before clipping."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    norms = []
    for update in samples:
        for index, part in enumerate(update.chunk(micro)):
            is_last = index == micro - 1
            with nullcontext() if is_last or not hasattr(model, "no_sync") else model.no_sync():
                (scale / micro * model(part).square().mean()).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).detach())
        optimizer.step()
        optimizer.zero_grad()
    module = model.module if isinstance(model, DistributedDataParallel) else model
    return {"weights": {name: p.detach().clone() for name, p in module.named_parameters()}, "norms": norms}


@check(feature="no_sync", rests_on=["canary.all_reduce"])
def accumulation(context: Context) -> None:
    """Two accumulated halves give the weights and norms of whole batches, gradients clipped."""
    own = stream(context, context.rank)
    at_once = train(DistributedDataParallel(network(context)), own, micro=1)
    accumulated = train(DistributedDataParallel(network(context)), own, micro=2)
    everyone = torch.cat([stream(context, rank) for rank in range(context.world_size)], dim=1)
    wrong = {
        "summed over the ranks": train(network(context), everyone, micro=1, scale=context.world_size),
        "summed over the halves": train(network(context), everyone, micro=1, scale=2.0),
        "this rank's samples alone": train(network(context), own, micro=1),
    }
    wanted = train(network(context), everyone, micro=1)
    context.equal("at once, against one process", at_once, wanted, wrong=wrong)
    context.equal("accumulated, against one process", accumulated, wanted, wrong=wrong)
    context.equal("accumulated, against at once", accumulated, at_once)
