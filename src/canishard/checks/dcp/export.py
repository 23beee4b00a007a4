"""A sharded model leaves for a plain file: converted from a checkpoint, or gathered."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from canishard.check import Context, Stage, check
from canishard.checks.dcp.states import SAVED_SEED, check_saved, checkpoint, network, rows, saved, sharded
from canishard.checks.names import FULLY_SHARD

RESTS_ON = ["fsdp2.sharding", "fsdp2.train*"]


@check(
    feature="dcp_to_torch_save",
    needs=[FULLY_SHARD],
    rests_on=RESTS_ON,
    stages=[Stage("save"), Stage("convert", 1, process_group=False)],
)
def to_torch_save(context: Context) -> None:
    """dcp_to_torch_save writes a file with keys model and optim, bit-exact."""
    if context.stage == "save":
        check_saved(context)
        return
    target = context.directory / "converted.pt"
    dcp_to_torch_save(checkpoint(context), target)
    got, wanted = torch.load(target, weights_only=True), saved(context)
    context.equal("top-level keys", sorted(got), ["model", "optim"])
    context.equal("model", dict(got["model"]), wanted["model"], exact=True)
    context.equal("optimizer state", got["optim"]["state"], wanted["optim"], exact=True)


@check(
    feature="get_model_state_dict",
    needs=[FULLY_SHARD],
    rests_on=["fsdp2.sharding"],
    packages=["safetensors"],
)
def full_state_dict(context: Context) -> None:
    """All ranks gather a full state dict: rank 0 has every tensor and writes the file, the others have {}."""
    from safetensors.torch import load_file, save_file  # noqa: PLC0415 - only this check needs the package.

    model, _ = sharded(context, SAVED_SEED)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    got = get_model_state_dict(model, options=options)
    wanted = {name: rows(p) for name, p in network(SAVED_SEED, context.device).named_parameters()}
    context.equal("gathered", dict(got), wanted if context.rank == 0 else {}, exact=True)
    target = context.directory / "model.safetensors"
    if context.rank == 0:
        save_file(got, target)
    dist.barrier()
    context.equal("file", load_file(target), wanted, exact=True)
