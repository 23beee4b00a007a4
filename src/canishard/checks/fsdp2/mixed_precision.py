"""A sharded network under a MixedPrecisionPolicy."""

from __future__ import annotations

import torch
from torch.nn.functional import mse_loss

from canishard.check import Context, check, scaled
from canishard.checks.fsdp2.networks import Tensors, batch, full, gradients_of, network, part, sharded
from canishard.checks.names import FULLY_SHARD, POLICY

REDUCE_SCATTER = "collectives.reduce_scatter_tensor[op=avg]"


def mean(trees: list[Tensors]) -> Tensors:
    """Average tensors of the same names."""
    return {name: torch.stack([tree[name] for tree in trees]).mean(0) for name in trees[0]}


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
