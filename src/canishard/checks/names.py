"""Names that moved between releases, each with its old one: what checks of several families have in ``needs``."""

from __future__ import annotations

DTENSOR = ("torch.distributed.tensor.DTensor", "torch.distributed._tensor.DTensor")
SHARD = ("torch.distributed.tensor.Shard", "torch.distributed._tensor.Shard")
REPLICATE = ("torch.distributed.tensor.Replicate", "torch.distributed._tensor.Replicate")
PARTIAL = ("torch.distributed.tensor.Partial", "torch.distributed._tensor.Partial")
DISTRIBUTE = ("torch.distributed.tensor.distribute_tensor", "torch.distributed._tensor.distribute_tensor")

FULLY_SHARD = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")
FSDP_MODULE = ("torch.distributed.fsdp.FSDPModule", "torch.distributed._composable.fsdp.FSDPModule")
POLICY = (
    "torch.distributed.fsdp.MixedPrecisionPolicy",
    "torch.distributed._composable.fsdp.MixedPrecisionPolicy",
)
FORCE_SUM = "torch.distributed.fsdp.FSDPModule.set_force_sum_reduction_for_comms"
