"""FSDP2 (fully_shard): a network sharded over the ranks trains as one process does on the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import gelu, mse_loss

from canishard.check import Context, check, scaled

FULLY_SHARD = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")
FSDP_MODULE = ("torch.distributed.fsdp.FSDPModule", "torch.distributed._composable.fsdp.FSDPModule")
POLICY = (
    "torch.distributed.fsdp.MixedPrecisionPolicy",
    "torch.distributed._composable.fsdp.MixedPrecisionPolicy",
)
DTENSOR = ("torch.distributed.tensor.DTensor", "torch.distributed._tensor.DTensor")
SHARD = ("torch.distributed.tensor.Shard", "torch.distributed._tensor.Shard")
FORCE_SUM = "torch.distributed.fsdp.FSDPModule.set_force_sum_reduction_for_comms"
REDUCE_SCATTER = "collectives.reduce_scatter_tensor[op=avg]"

WIDTH, BATCH, STEPS = 32, 8, 3
OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.02),
    # AdamW divides by the gradient's own size, so that a wrong factor shows only where gradients are as small
    # as eps, and rounding is magnified there as well. With eps=1e-5 parameters differ by 2e-3 where gradients
    # are doubled and by 4e-6 from rounding; with the default of 1e-8 by 8e-4 and by 7e-5.
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, eps=1e-5),
}
TRAINED_ATOL = {"sgd": 1e-6, "adamw": 1e-4}
Batch = tuple[torch.Tensor, torch.Tensor]
Tensors = dict[str, torch.Tensor]


class Block(nn.Module):
    """x + down(gelu(up(x)))."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(gelu(self.up(x)))


class Network(nn.Module):
    """Four residual blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def network(context: Context) -> Network:
    """Return the unsharded network, with the same parameters on every rank."""
    torch.manual_seed(3)
    return Network().to(context.device)


def batch(context: Context, step: int = 0) -> Batch:
    """Return the whole batch of a step; no two samples are equal."""
    generator = torch.Generator().manual_seed(100 + step)
    x, y = (torch.randn(BATCH, width, generator=generator) for width in (WIDTH, 1))
    return x.to(context.device), y.to(context.device)


def part(whole: Batch, rank: int, world_size: int) -> Batch:
    """Return a rank's share of a batch."""
    x, y = (tensor.chunk(world_size)[rank] for tensor in whole)
    return x, y


def sharded(context: Context, mesh: Any = None, *, force_sum: bool = False, **options: Any) -> Any:
    """Return the network with ``fully_shard`` on each block, then on the root."""
    model = network(context)
    mesh = mesh or init_device_mesh(context.device.type, (context.world_size,))
    for module in (*model.blocks, model):
        context.api.fully_shard(module, mesh=mesh, **options)
        if force_sum:
            module.set_force_sum_reduction_for_comms(True)
    return model


def full(model: Any, *, gradients: bool = False) -> Tensors:
    """Gather a sharded model's parameters, or their gradients; every rank has to call it."""
    named = model.named_parameters()
    return {name: (p.grad if gradients else p).full_tensor().detach() for name, p in named}


def plain(model: nn.Module) -> Tensors:
    """Return copies of an unsharded model's parameters."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def gradients_of(model: nn.Module, data: Batch) -> Tensors:
    """Return an unsharded model's float32 gradients on some data."""
    x, y = data
    model.zero_grad()
    mse_loss(model(x).float(), y).backward()
    return {name: p.grad.float().clone() for name, p in model.named_parameters() if p.grad is not None}


def mean(trees: list[Tensors]) -> Tensors:
    """Average tensors of the same names."""
    return {name: torch.stack([tree[name] for tree in trees]).mean(0) for name in trees[0]}


def norm(tree: Tensors) -> float:
    """Return the norm of all elements together."""
    return float(torch.cat([tensor.flatten() for tensor in tree.values()]).norm())


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: list[Batch], scale: float = 1.0
) -> list[float]:
    """Take a step per batch, with gradients multiplied by ``scale``; return the losses."""
    losses = []
    for x, y in data:
        loss = mse_loss(model(x), y)
        loss.backward()
        if scale != 1.0:
            for parameter in model.parameters():
                parameter.grad = None if parameter.grad is None else parameter.grad * scale
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


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


def compare_training(context: Context, model: Any, optimizer: str) -> None:
    """Train on this rank's share of each batch; compare with one process that trains on whole batches."""
    data = [batch(context, step) for step in range(STEPS)]
    own = [part(whole, context.rank, context.world_size) for whole in data]
    train(model, OPTIMIZERS[optimizer](model.parameters()), own)

    def reference(data: list[Batch], scale: float = 1.0) -> Tensors:
        alone = network(context)
        train(alone, OPTIMIZERS[optimizer](alone.parameters()), data, scale)
        return plain(alone)

    wrong = {
        "gradients summed instead of averaged": reference(data, context.world_size),
        "trained on this rank's share alone": reference(own),
        "unchanged": plain(network(context)),
    }
    atol = TRAINED_ATOL[optimizer]
    context.equal("parameters", full(model), reference(data), wrong=wrong, rtol=1e-5, atol=atol)


@check(feature="fully_shard", needs=[FULLY_SHARD, FSDP_MODULE, DTENSOR, SHARD])
def sharding(context: Context) -> None:
    """Parameters are DTensors placed Shard(0), and each rank holds its rows of them."""
    model, api = sharded(context), context.api
    named, whole = dict(model.named_parameters()), plain(network(context))
    modules = [isinstance(module, api.FSDPModule) for module in (*model.blocks, model)]
    context.equal("modules are FSDPModule", modules, [True] * len(modules))
    context.equal("parameters are DTensors", all(isinstance(p, api.DTensor) for p in named.values()), True)
    shards = all(p.placements == (api.Shard(0),) for p in named.values())
    context.equal("placed Shard(0)", shards, True)
    held = {name: p.to_local() for name, p in named.items()}
    rows = {name: rows_of(tensor, context.rank, context.world_size) for name, tensor in whole.items()}
    context.equal("rows held", held, rows, wrong={"the whole parameters": whole}, exact=True)
    share = sum(p.numel() for p in held.values()) / sum(p.numel() for p in whole.values())
    context.measure("share_held", share)


def rows_of(tensor: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """Return a rank's rows under Shard(0); where rows are few the last ranks have none."""
    chunks = tensor.chunk(world_size)
    return chunks[rank] if rank < len(chunks) else tensor[:0]


@check(feature="fully_shard", params={"reduce": ("default",)}, needs=[FULLY_SHARD], rests_on=[REDUCE_SCATTER])
def gradients(context: Context, reduce: str) -> None:
    """Gradients of one backward equal those of one process on the whole batch."""
    compare_gradients(context, sharded(context))


@check(feature="fully_shard", subject="gradients", workaround="force_sum", needs=[FULLY_SHARD, FORCE_SUM])
def gradients_force_sum(context: Context) -> None:
    """Gradients equal one process's on the whole batch, with set_force_sum_reduction_for_comms(True)."""
    compare_gradients(context, sharded(context, force_sum=True))


@check(
    feature="fully_shard",
    subject="train",
    params={"optimizer": tuple(OPTIMIZERS)},
    needs=[FULLY_SHARD],
    rests_on=["fsdp2.gradients*"],
)
def training(context: Context, optimizer: str) -> None:
    """Parameters after three steps equal those of one process training on whole batches."""
    compare_training(context, sharded(context), optimizer)


@check(
    feature="fully_shard",
    subject="train",
    params={"optimizer": tuple(OPTIMIZERS)},
    workaround="force_sum",
    needs=[FULLY_SHARD, FORCE_SUM],
    rests_on=["fsdp2.gradients+force_sum"],
)
def training_force_sum(context: Context, optimizer: str) -> None:
    """Parameters equal one process's after three steps, with set_force_sum_reduction_for_comms(True)."""
    compare_training(context, sharded(context, force_sum=True), optimizer)


@check(
    feature="MixedPrecisionPolicy",
    params={"param": ("bfloat16",), "reduce": ("float32",)},
    needs=[FULLY_SHARD, POLICY],
    rests_on=[REDUCE_SCATTER, "fsdp2.gradients*"],
)
def mixed_precision(context: Context, param: str, reduce: str) -> None:
    """Compute runs in bfloat16, gradients are averaged in float32 and parameters stay float32."""
    compute, reduction = getattr(torch, param), getattr(torch, reduce)
    policy = context.api.MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduction)
    model, whole = sharded(context, mp_policy=policy), batch(context)
    x, y = part(whole, context.rank, context.world_size)
    output = model(x)
    mse_loss(output.float(), y).backward()
    context.equal("output dtype", output.dtype, compute, wrong={"computed in float32": torch.float32})
    dtypes = {name: (p.dtype, p.grad.dtype) for name, p in model.named_parameters()}
    context.equal("dtypes of parameters and gradients", dtypes, dict.fromkeys(dtypes, (torch.float32,) * 2))

    got, wanted = full(model, gradients=True), gradients_of(network(context), whole)
    parts = [part(whole, rank, context.world_size) for rank in range(context.world_size)]
    emulated = mean([gradients_of(network(context).to(compute), (x.to(compute), y)) for x, y in parts])
    wrong = {
        "summed instead of averaged": scaled(emulated, context.world_size),
        "computed in float32": wanted,
        f"reduced in {param}": {name: tensor.to(compute).to(reduction) for name, tensor in emulated.items()},
    }
    context.equal("gradients, against each share in one process", got, emulated, wrong=wrong)
    # Bfloat16 compute differs from float32 by 0.013 of a tensor's largest gradient; a lost factor by 1.
    largest = {name: tensor.abs().max() for name, tensor in wanted.items()}
    summed = wrong["summed instead of averaged"]
    got, wanted, summed = (
        {name: tree[name] / largest[name] for name in tree} for tree in (got, wanted, summed)
    )
    wrong = {"summed instead of averaged": summed}
    context.equal("gradients, against float32", got, wanted, wrong=wrong, atol=0.04)


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
        losses = train(alone, OPTIMIZERS["sgd"](alone.parameters()), data, scale)
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
    losses = torch.tensor(train(model, OPTIMIZERS["sgd"](model.parameters()), data), dtype=torch.float64)
    losses = losses.to(context.device)
    dist.all_reduce(losses)
    return losses / context.world_size
