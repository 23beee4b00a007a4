"""A trained FSDP2 model with AdamW state, saved, loaded, and beside it what each rank held.

The oracle is what each rank held when it saved, kept beside the checkpoint by plain ``torch.save``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh

from canishard.check import Context

WIDTH, STEPS = 8, 2
SAVED_SEED, OTHER_SEED = 31, 32
Tree = dict[str, Any]


def network(seed: int, device: torch.device) -> nn.Sequential:
    """Return two layers and a head whose single row leaves all ranks but one without a share."""
    torch.manual_seed(seed)
    layers = nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 1)
    return nn.Sequential(*layers).to(device)


def sharded(context: Context, seed: int) -> tuple[Any, torch.optim.AdamW]:
    """Return the network under ``fully_shard``, and its optimizer, which has no state yet."""
    model = network(seed, context.device)
    mesh = init_device_mesh(context.device.type, (context.world_size,))
    for module in (model[0], model[2], model):
        context.api.fully_shard(module, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(context: Context, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Take two steps on data of this rank's own."""
    generator = torch.Generator().manual_seed(40 + context.rank)
    for x in torch.randn(STEPS, 4, WIDTH, generator=generator).to(context.device):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tree:
    """Return copies of what this rank holds: its rows of the parameters and moments, and the step counts."""
    named = dict(model.named_parameters())
    states = {name: optimizer.state[p] for name, p in named.items()}
    return {
        "model": {name: rows(p) for name, p in named.items()},
        "optim": {name: {key: rows(value) for key, value in state.items()} for name, state in states.items()},
    }


def rows(value: Any) -> torch.Tensor:
    """Return a copy of this rank's part of a tensor, on the CPU."""
    local = value.to_local() if hasattr(value, "to_local") else value
    return local.detach().cpu().clone()


def joined(parts: list[Tree]) -> Tree:
    """Put the ranks' parts together: rows are concatenated, step counts (no dimension) equal on all ranks."""
    return {
        key: joined([part[key] for part in parts]) if isinstance(value, dict)
        else value if value.dim() == 0
        else torch.cat([part[key] for part in parts])
        for key, value in parts[0].items()
    }  # fmt: skip


def split(tree: Tree, rank: int, world_size: int) -> Tree:
    """Return a rank's part of a whole state under Shard(0)."""

    def own(value: torch.Tensor) -> torch.Tensor:
        if value.dim() == 0:
            return value
        chunks = value.chunk(world_size)
        return chunks[rank] if rank < len(chunks) else value[:0]

    return {k: split(v, rank, world_size) if isinstance(v, dict) else own(v) for k, v in tree.items()}


def save(context: Context) -> Tree:
    """Train, save a checkpoint and, beside it, what this rank holds; return the latter."""
    model, optimizer = sharded(context, SAVED_SEED)
    train(context, model, optimizer)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optim": optimizer_state}, checkpoint_id=checkpoint(context))
    own = held(model, optimizer)
    torch.save(own, context.directory / f"rank{context.rank}.pt")
    return own


def checkpoint(context: Context) -> Path:
    """Return where the checkpoint of a case lies."""
    return context.directory / "checkpoint"


def saved(context: Context) -> Tree:
    """Return the whole state that was saved, put together from what each rank kept."""
    files = sorted(context.directory.glob("rank*.pt"))
    return joined([torch.load(file, weights_only=True) for file in files])


def load(context: Context) -> tuple[Tree, Tree]:
    """Load into a sharded model of another init; return what this rank held before, and what it holds now."""
    model, optimizer = sharded(context, OTHER_SEED)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    before = held(model, optimizer)
    state = {"model": model_state, "optim": optimizer_state}
    dcp.load(state, checkpoint_id=checkpoint(context))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    return before, held(model, optimizer)


def check_saved(context: Context) -> None:
    """Save, and see that there is something to load: trained state on every rank, and a checkpoint."""
    own = save(context)
    steps = {name: state["step"] for name, state in own["optim"].items()}
    context.equal("steps taken", steps, dict.fromkeys(steps, torch.tensor(float(STEPS))))
    context.equal("checkpoint written", any(checkpoint(context).iterdir()), True)
