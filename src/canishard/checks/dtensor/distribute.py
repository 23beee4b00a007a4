"""A tensor that every rank has becomes a DTensor; bit-exact."""

from __future__ import annotations

from torch.distributed.device_mesh import init_device_mesh

from canishard.check import Context, check
from canishard.checks.dtensor.layouts import held, whole, wrong_values
from canishard.checks.names import DISTRIBUTE, SHARD


@check(feature="distribute_tensor", params={"to": ("shard0", "shard1")}, needs=[DISTRIBUTE, SHARD])
def distribute_tensor(context: Context, to: str) -> None:
    """distribute_tensor leaves each rank its slice of the tensor."""
    mesh = init_device_mesh(context.device.type, (context.world_size,))
    tensor = whole(context.world_size)
    placement = context.api.Shard(int(to.removeprefix("shard")))
    got = context.api.distribute_tensor(tensor.to(context.device), mesh, [placement])
    wrong = {"the whole tensor": tensor} | wrong_values(context, "replicate", to)
    context.equal("local part", got.to_local(), held(context, to), wrong=wrong, exact=True)
