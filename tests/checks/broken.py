"""Checks with the thing under test broken: what a rank does before it runs a real check.

Copied beside a test's other files, where the ranks' Python finds it. A rank is a fresh process, so nothing
here is ever mended again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from canishard.check import Context


def run(context: Context, fault: str, module: str, function: str, **params: Any) -> None:
    checks = importlib.import_module(module)
    FAULTS[fault](context, checks)
    getattr(checks, function)(context, **params)


def set_collective(name: str, function: Callable[..., Any]) -> None:
    """Replace a collective; FSDP2 knows reduce_scatter_tensor by another name from torch 2.13 on."""
    setattr(dist, name, function)
    if name == "reduce_scatter_tensor" and hasattr(dist, "reduce_scatter_single"):
        dist.reduce_scatter_single = function


def use_op(collective: str, op: str, *_: Any) -> None:
    real = getattr(dist, collective)
    chosen = getattr(dist.ReduceOp, op.upper())
    set_collective(collective, lambda *args, **named: real(*args, **{**named, "op": chosen}))


def own_chunk(context: Context, _: Any) -> None:
    def reduce_scatter_tensor(output: torch.Tensor, input: torch.Tensor, **_: Any) -> None:  # noqa: A002
        output.copy_(input.chunk(context.world_size)[context.rank])

    set_collective("reduce_scatter_tensor", reduce_scatter_tensor)


def next_chunk(context: Context, _: Any) -> None:
    real = dist.reduce_scatter_tensor

    def reduce_scatter_tensor(output: torch.Tensor, input: torch.Tensor, **named: Any) -> Any:  # noqa: A002
        return real(output, torch.cat([*input.chunk(context.world_size)[1:], input[: len(output)]]), **named)

    set_collective("reduce_scatter_tensor", reduce_scatter_tensor)


def broadcast(*_: Any) -> None:
    dist.all_reduce = lambda tensor, **_: dist.broadcast(tensor, src=0)


def replace(context: Context, name: str, change: Callable[[Any], Any]) -> None:
    """Change what a check finds under a name that it needs."""
    context.api._found[name] = (name, change(context.api._found[name][1]))


def neighbours_rows(context: Context, _: Any) -> None:
    def change(real: Any) -> Any:
        return lambda tensor, *args: real(tensor.roll(-len(tensor) // context.world_size, dims=0), *args)

    replace(context, "distribute_tensor", change)


def rows_flipped(*_: Any) -> None:
    real = DTensor.to_local
    DTensor.to_local = lambda self: real(self).flip(0)


def sharded_sgd_does_nothing(*_: Any) -> None:
    real = torch.optim.SGD.step

    def step(self: Any) -> None:
        if not isinstance(self.param_groups[0]["params"][0], DTensor):
            real(self)

    torch.optim.SGD.step = step


def gradients_times_ranks(context: Context, _: Any) -> None:
    def change(real: Any) -> Any:
        def parallelize_module(module: Any, *args: Any) -> None:
            for parameter in real(module, *args).parameters():
                parameter.register_hook(lambda gradient: gradient * context.world_size)

        return parallelize_module

    replace(context, "parallelize_module", change)


def loss_dropped(*_: Any) -> None:
    schedule = importlib.import_module("torch.distributed.pipelining").ScheduleGPipe
    real = schedule.step

    def step(self: Any, *args: Any, losses: Any = None, **named: Any) -> None:
        real(self, *args, losses=losses, **named)
        if losses:
            losses.pop()

    schedule.step = step


def ddp(after: Callable[[Any], Any], *_: Any) -> None:
    """Do something with every DistributedDataParallel that is made."""
    real = DistributedDataParallel.__init__

    def init(self: Any, *args: Any) -> None:
        real(self, *args)
        after(self)

    DistributedDataParallel.__init__ = init


def sum_gradients(model: Any) -> None:
    def hook(_, bucket):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - DDP inspects annotations
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    model.register_comm_hook(None, hook)


def next_float(tensor: Any) -> None:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    local.copy_(torch.nextafter(local, torch.tensor(torch.inf)))


def loaded_one_bit_off(*_: Any) -> None:
    real = dcp.load

    def load(state: Any, **named: Any) -> None:
        real(state, **named)
        for tensor in state["model"].values():
            next_float(tensor)

    dcp.load = load


def converted_one_bit_off(_: Context, checks: Any) -> None:
    real = checks.dcp_to_torch_save

    def convert(source: Path, target: Path) -> None:
        real(source, target)
        state = torch.load(target)
        next_float(next(iter(state["optim"]["state"].values()))["exp_avg"])
        torch.save(state, target)

    checks.dcp_to_torch_save = convert


def gathered_everywhere(_: Context, checks: Any) -> None:
    real = checks.get_model_state_dict
    checks.get_model_state_dict = lambda model, **_: real(
        model, options=StateDictOptions(full_state_dict=True)
    )


COLLECTIVES = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
FAULTS: dict[str, Callable[[Context, Any], Any]] = {
    **{
        f"{name} as {op}": partial(use_op, name, op)
        for name in COLLECTIVES
        for op in ("sum", "avg", "max", "bor")
    },
    "all_reduce does nothing": lambda *_: setattr(dist, "all_reduce", lambda *_, **__: None),
    "all_reduce broadcasts": broadcast,
    "own chunk": own_chunk,
    "next chunk": next_chunk,
    "neighbour's rows": neighbours_rows,
    "rows flipped": rows_flipped,
    "optimizer does nothing": sharded_sgd_does_nothing,
    "policy ignored": lambda context, _: replace(
        context, "MixedPrecisionPolicy", lambda real: lambda **_: real()
    ),
    "reduce dtype ignored": lambda context, _: replace(
        context, "MixedPrecisionPolicy", lambda real: lambda **named: real(param_dtype=named["param_dtype"])
    ),
    "functional all_reduce does nothing": lambda *_: setattr(
        functional, "all_reduce", lambda tensor, *_, **__: tensor
    ),
    "gradients times ranks": gradients_times_ranks,
    "redistribute does nothing": lambda *_: setattr(DTensor, "redistribute", lambda self, **_: self),
    "full_tensor is local": lambda *_: setattr(DTensor, "full_tensor", DTensor.to_local),
    "gradients not scaled": lambda context, _: replace(
        context,
        "ScheduleGPipe",
        lambda real: (
            lambda stage, count, loss_fn, scale_grads=True: real(
                stage, count, loss_fn=loss_fn, scale_grads=not scale_grads
            )
        ),
    ),
    "loss dropped": loss_dropped,
    "ddp sums": partial(ddp, sum_gradients),
    "ddp never synchronises": partial(ddp, lambda model: setattr(model, "require_backward_grad_sync", False)),
    "load does nothing": lambda *_: setattr(dcp, "load", lambda *_, **__: None),
    "loaded one bit off": loaded_one_bit_off,
    "converted one bit off": converted_one_bit_off,
    "gathered everywhere": gathered_everywhere,
}
