"""Tensor parallelism: an MLP split over the ranks behaves as the whole one."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from canishard.check import Context, check, scaled

PREFIX = "torch.distributed.tensor.parallel"
WIDTH, HIDDEN = 32, 128


class Mlp(nn.Module):
    """down(gelu(up(x)))."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


def seeded_mlp(device: torch.device) -> Mlp:
    """Return the MLP of every rank, equal on all of them."""
    torch.manual_seed(11)
    return Mlp().to(device)


def slices(tensors: dict[str, torch.Tensor], rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """Return a rank's part of each parameter: rows of up, columns of down's weight, down's bias whole."""
    dims = {"up.weight": 0, "up.bias": 0, "down.weight": 1}
    return {
        name: tensor.chunk(world_size, dim=dims[name])[rank].contiguous() if name in dims else tensor
        for name, tensor in tensors.items()
    }


def partial_output(model: Mlp, x: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """Return what one rank's share of the hidden units adds to the output, without down's bias."""
    part = slices(dict(model.named_parameters()), rank, world_size)
    hidden = nn.functional.gelu(nn.functional.linear(x, part["up.weight"], part["up.bias"]))
    return nn.functional.linear(hidden, part["down.weight"])


@check(
    feature="parallelize_module",
    subject="mlp",
    params={"style": ("colwise_rowwise",)},
    needs=[f"{PREFIX}.parallelize_module", f"{PREFIX}.ColwiseParallel", f"{PREFIX}.RowwiseParallel"],
    rests_on=["collectives.all_reduce[op=sum]", "dtensor.redistribute*"],
)
def mlp(context: Context, style: str) -> None:
    """An MLP split by columns, then rows, has the output, gradients and slices of the whole one."""
    api, rank, world_size = context.api, context.rank, context.world_size
    whole, split = seeded_mlp(context.device), seeded_mlp(context.device)
    plan = {"up": api.ColwiseParallel(), "down": api.RowwiseParallel()}
    api.parallelize_module(split, init_device_mesh(context.device.type, (world_size,)), plan)
    x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(12)).to(context.device)
    got, wanted = split(x), whole(x)
    got.square().sum().backward()
    wanted.square().sum().backward()

    own = partial_output(whole, x, rank, world_size) + whole.down.bias
    biases = wanted + (world_size - 1) * whole.down.bias
    wrong = {"this rank's partial sum": own, "bias added on every rank": biases}
    context.equal("output", got, wanted, wrong=wrong)
    named, named_whole = dict(split.named_parameters()), dict(whole.named_parameters())
    held = {name: parameter.to_local() for name, parameter in named.items()}
    context.equal("parameters held", held, slices(named_whole, rank, world_size), exact=True)
    gradients = {name: parameter.grad.to_local() for name, parameter in named.items()}
    right = slices({name: parameter.grad for name, parameter in named_whole.items()}, rank, world_size)
    wrong = {"summed over the ranks": scaled(right, world_size)}
    context.equal("gradients held", gradients, right, wrong=wrong)
