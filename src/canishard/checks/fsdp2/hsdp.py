"""A network sharded over one dimension of a mesh and replicated over the other."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from canishard.check import Context, check
from canishard.checks.fsdp2.networks import STEPS, Batch, batch, network, part, sgd, sharded, train
from canishard.checks.names import FULLY_SHARD

REDUCE_SCATTER = "collectives.reduce_scatter_tensor[op=avg]"


@check(
    feature="fully_shard (HSDP)",
    world_sizes=(4,),
    needs=[FULLY_SHARD],
    rests_on=[REDUCE_SCATTER, "collectives.all_reduce[op=avg]", "fsdp2.gradients*", "ddp.accumulation"],
)
def hsdp_losses(context: Context) -> None:
    """HSDP on a 2x2 mesh has the losses of DDP on four ranks, and of one process on all their data."""
    data = [batch(context, step) for step in range(STEPS)]
    own = [part(whole, context.rank, context.world_size) for whole in data]
    mesh = init_device_mesh(context.device.type, (2, 2), mesh_dim_names=("replicate", "shard"))
    hybrid, ddp = sharded(context, mesh), nn.parallel.DistributedDataParallel(network(context))
    got, other = mean_losses(context, hybrid, own), mean_losses(context, ddp, own)

    def reference(data: list[Batch], scale: float = 1.0) -> torch.Tensor:
        alone = network(context)
        losses = train(alone, sgd(alone.parameters()), data, scale)
        return torch.tensor(losses, dtype=torch.float64)

    wrong = {
        "gradients summed over the shards": reference(data, 2.0),
        "gradients summed over all ranks": reference(data, 4.0),
    }
    context.equal("HSDP's losses", got, reference(data), wrong=wrong, rtol=1e-4)
    context.equal("DDP's losses", other, reference(data), wrong=wrong, rtol=1e-4)
    context.equal("HSDP's losses against DDP's", got, other, rtol=1e-4)


def mean_losses(context: Context, model: nn.Module, data: list[Batch]) -> torch.Tensor:
    """Train with SGD; return the loss of each step, averaged over the ranks."""
    losses = torch.tensor(train(model, sgd(model.parameters()), data), dtype=torch.float64)
    losses = losses.to(context.device)
    dist.all_reduce(losses)
    return losses / context.world_size
