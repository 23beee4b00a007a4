"""What is loaded, by the same processes or by others, by as many or by fewer, is exactly what was saved."""

from __future__ import annotations

import torch.distributed.checkpoint as dcp

from canishard.check import Context, Stage, check
from canishard.checks.dcp.states import (
    OTHER_SEED,
    check_saved,
    checkpoint,
    load,
    network,
    rows,
    save,
    saved,
    split,
)
from canishard.checks.names import FULLY_SHARD

RESTS_ON = ["fsdp2.sharding", "fsdp2.train*"]


@check(feature="save, load", needs=[FULLY_SHARD], rests_on=RESTS_ON)
def round_trip(context: Context) -> None:
    """A model and AdamW state, saved and loaded into a sharded model of another init, are bit-exact."""
    own = save(context)
    before, got = load(context)
    context.equal("state", got, own, wrong={"not loaded": before}, exact=True)


def save_or_resume(context: Context) -> None:
    """Save in the first stage; load and compare in the second, on as many ranks as that has."""
    if context.stage == "save":
        check_saved(context)
        return
    before, got = load(context)
    wanted = split(saved(context), context.rank, context.world_size)
    context.equal("state", got, wanted, wrong={"not loaded": before}, exact=True)


@check(feature="save, load", needs=[FULLY_SHARD], rests_on=RESTS_ON, stages=[Stage("save"), Stage("resume")])
def resume(context: Context) -> None:
    """Fresh processes resume with the model and AdamW state that others saved, bit-exact."""
    save_or_resume(context)


@check(
    feature="save, load",
    subject="resume",
    params={"saved": (4,), "loaded": (2,)},
    world_sizes=(4,),
    needs=[FULLY_SHARD],
    rests_on=[*RESTS_ON, "dcp.resume"],
    stages=[Stage("save", 4), Stage("resume", 2)],
)
def resume_resharded(context: Context, saved: int, loaded: int) -> None:
    """Two ranks resume with the model and AdamW state that four ranks saved, bit-exact."""
    save_or_resume(context)


@check(
    feature="load",
    needs=[FULLY_SHARD],
    rests_on=RESTS_ON,
    stages=[Stage("save"), Stage("load", 1, process_group=False)],
)
def reshard_to_one(context: Context) -> None:
    """One process without a process group loads the checkpoint into a plain model, bit-exact."""
    if context.stage == "save":
        check_saved(context)
        return
    model = network(OTHER_SEED, context.device)
    state = {"model": model.state_dict()}
    before = {name: rows(tensor) for name, tensor in state["model"].items()}
    dcp.load(state, checkpoint_id=checkpoint(context))
    model.load_state_dict(state["model"])
    got = {name: rows(p) for name, p in model.named_parameters()}
    context.equal("model", got, saved(context)["model"], wrong={"not loaded": before}, exact=True)
