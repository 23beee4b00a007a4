"""Made-up rows for the cost of a release: trivial ones, of every five one that fails, each in one of three ways."""

from __future__ import annotations

import torch
import torch.distributed as dist

from canishard.check import Context, check

ROWS = 300
FAILING = 5
"""One row in so many fails."""


@check(feature="bench", params={"row": tuple(range(ROWS))}, world_sizes=(2,))
def made_up(context: Context, row: int) -> None:
    """Sum one number a rank; some rows are wrong, refuse, or raise."""
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    if row % FAILING == 0 and row % 3 == 1:
        msg = "not here"
        raise NotImplementedError(msg)
    if row % FAILING == 0 and row % 3 == 2:  # noqa: PLR2004 - the third of three ways
        msg = "not so"
        raise RuntimeError(msg)
    wanted = torch.full((1,), float(context.world_size + (row % FAILING == 0)))
    context.equal("sum", tensor, wanted)
