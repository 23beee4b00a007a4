"""The network of FSDP2's checks, its data, and how it is sharded and trained, there and in one process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import gelu, mse_loss

from canishard.check import Context

WIDTH, BATCH, STEPS = 32, 8, 3
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


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.SGD:
    """Return the optimizer that hides no factor in a gradient."""
    return torch.optim.SGD(parameters, lr=0.02)


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
