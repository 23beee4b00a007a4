"""What a reproduction script does in each rank: join, run the check, say what came out, stay until all have.

``reproduce`` puts the text of this module and a check's into one script. It does as ``launch.rank``; nothing here
is used by canishard itself.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # The script has them: canishard does not import torch here.
    import torch
    import torch.distributed as dist

    from canishard.check import Api, CheckFault, Context
    from canishard.declare import handing

START_S = 180.0
"""Seconds to import torch and begin."""


def check(**declared: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Keep what a check declares for the runner at the end of this file."""

    def keep(function: Callable[..., None]) -> Callable[..., None]:
        handed = handing(function, declared["rows"]) if declared.get("rows") else function
        vars(handed)["declared"] = declared
        return handed

    return keep


def run_rank(pipe: Any, function: Callable[..., None], task: dict[str, Any]) -> NoReturn:
    """Run the check on one rank, say what came out, and stay until all have: peers would see a reset."""
    os.environ.update({name: str(task[name.lower()]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")})
    stacks = Path(task["stacks"]).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
    faulthandler.enable()
    if hasattr(signal, "alarm"):  # Where whoever watches was killed, nobody else ends a rank that is stuck.
        signal.alarm(int(task["deadline_s"] + 2 * START_S))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        api = Api(task["needs"])  # Importing them is still part of starting.
        pipe.send({"phase": "init"})
        faulthandler.dump_traceback_later(task["deadline_s"], file=stacks)
        context = context_of(task, api)
        pipe.send({"phase": "body"})
        function(context, **task["params"])
    except SystemExit:
        raise  # Leaving without a report is what is to be seen.
    except BaseException as error:  # noqa: BLE001 - whatever was raised is the result
        report = {"error": described(error, function)}
        pipe.send({"report": report})
    else:
        parts = ("compared", "mismatches", "measurements", "notes")
        report = {part: getattr(context, part) for part in parts}
        pipe.send({"phase": "report", "report": report})
    faulthandler.cancel_dump_traceback_later()
    pipe.recv()  # The release.
    if "error" not in report and dist.is_initialized():  # After an error it can hang.
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def context_of(task: dict[str, Any], api: Api) -> Context:
    """Join the process group, by a file; return what the check is handed."""
    device = torch.device(task["device"])
    if device.type != "cpu":
        accelerator = getattr(torch, device.type)
        device = torch.device(device.type, task["rank"] % accelerator.device_count())
        accelerator.set_device(device)
    if task["process_group"]:
        dist.init_process_group(
            task["backend"],
            init_method=Path(task["rendezvous"]).as_uri(),
            rank=task["rank"],
            world_size=task["world_size"],
        )
    return Context(
        rank=task["rank"],
        world_size=task["world_size"],
        device=device,
        backend=task["backend"],
        directory=Path(task["directory"]),
        stage=task["stage"],
        api=api,
    )


def described(error: BaseException, function: Callable[..., None]) -> dict[str, Any]:
    """Describe what a check raised; ``rejected`` says that its own call did not fit a signature."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[-1].name in {"wrapper", "inner", "wrapped"}:  # torch's, around its functions
        frames.pop()
    misfit = r"unexpected keyword argument|missing \d+ required|takes .*arguments? but|takes no .*arguments"
    is_ours = bool(frames) and frames[-1].filename == function.__code__.co_filename
    return {
        "text": f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        "rejected": isinstance(error, TypeError) and bool(re.search(misfit, str(error))) and is_ours,
        "refused": isinstance(error, NotImplementedError),
        "fault": isinstance(error, CheckFault),
    }
