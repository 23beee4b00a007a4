"""Pipeline parallelism: one stage a rank, microbatches through all of them."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn
from torch.nn.functional import mse_loss

from canishard.check import Context, check, scaled

NEEDS = ("torch.distributed.pipelining.PipelineStage", "torch.distributed.pipelining.ScheduleGPipe")
WIDTH, BATCH, MICROBATCHES = 16, 8, 4


def layers(context: Context) -> nn.ModuleList:
    """Return one layer a stage, equal on every rank."""
    torch.manual_seed(21)
    stages = (nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(context.world_size))
    return nn.ModuleList(stages).to(context.device)


def data(context: Context) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and targets of the whole batch."""
    x, y = torch.randn(2, BATCH, WIDTH, generator=torch.Generator().manual_seed(22)).to(context.device)
    return x, y


def reference(context: Context) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Return one process's loss of each microbatch, and this rank's gradients, summed over them."""
    stages, (x, y) = layers(context), data(context)
    parts = zip(x.chunk(MICROBATCHES), y.chunk(MICROBATCHES), strict=True)
    losses = [mse_loss(nn.Sequential(*stages)(inputs), targets) for inputs, targets in parts]
    torch.stack(losses).sum().backward()
    return [loss.detach() for loss in losses], gradients_of(stages[context.rank])


def gradients_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a module's gradients."""
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def stage(context: Context, module: nn.Module) -> Any:
    """Return this rank's stage, with an example input where this release requires one."""
    given: dict[str, Any] = {}
    signature = inspect.signature(context.api.PipelineStage)
    example = signature.parameters.get("input_args")
    if example is not None and example.default is inspect.Parameter.empty:
        given["input_args"] = data(context)[0].chunk(MICROBATCHES)[0]
        context.note("PipelineStage requires input_args in this release: an example microbatch is passed")
    rank, world_size = context.rank, context.world_size
    return context.api.PipelineStage(module, rank, world_size, context.device, **given)


def step(context: Context, schedule: Any) -> list[torch.Tensor]:
    """Send the batch through; return the losses, which the last rank alone has."""
    losses: list[torch.Tensor] = []
    inputs, targets = data(context)
    arguments = (inputs,) if context.rank == 0 else ()
    if context.rank == context.world_size - 1:
        schedule.step(*arguments, target=targets, losses=losses)
    else:
        schedule.step(*arguments)
    return [loss.detach() for loss in losses]


def compare_pipeline(context: Context, **options: Any) -> None:
    """Run GPipe; compare its losses, and its gradients, averaged where this release can, else summed."""
    module = layers(context)[context.rank]
    schedule = context.api.ScheduleGPipe(stage(context, module), MICROBATCHES, loss_fn=mse_loss, **options)
    losses = step(context, schedule)
    wanted, summed = reference(context)
    last = context.rank == context.world_size - 1
    context.equal("losses", losses, wanted if last else [])
    averaged = scaled(summed, 1 / MICROBATCHES)
    if "scale_grads" in inspect.signature(context.api.ScheduleGPipe).parameters:
        wrong = {"summed over the microbatches": summed}
        context.equal("gradients", gradients_of(module), averaged, wrong=wrong)
    else:
        context.note("ScheduleGPipe has no scale_grads in this release: it sums over the microbatches")
        wrong = {"averaged over the microbatches": averaged}
        context.equal("gradients", gradients_of(module), summed, wrong=wrong)


@check(feature="ScheduleGPipe", needs=NEEDS, rests_on=["canary.all_reduce"])
def gpipe(context: Context) -> None:
    """GPipe gives the losses of four microbatches, and gradients, of one process."""
    compare_pipeline(context)


@check(
    feature="ScheduleGPipe",
    subject="gpipe",
    params={"scale_grads": (True,)},
    needs=NEEDS,
    rests_on=["canary.all_reduce", "pp.gpipe"],
)
def gpipe_scaled(context: Context, scale_grads: bool) -> None:
    """GPipe averages gradients over the microbatches where it is asked to."""
    compare_pipeline(context, scale_grads=scale_grads)
