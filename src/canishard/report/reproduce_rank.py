"""What a reproduction script does in each rank: join, run the check, say what came out, stay until all have.

``reproduce`` puts the text of this module, of ``launch.accounts`` and a check's into one script. It does as
``launch.rank``; nothing here is used by canishard itself.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from canishard.launch.accounts import report_of

if TYPE_CHECKING:  # The script has them: canishard does not import torch here.
    import torch
    import torch.distributed as dist

    from canishard.check import Api, CheckFault, Context
    from canishard.declare import handing

START_S = 180.0
"""Seconds to import torch and begin."""
RENDEZVOUS_TIMEOUT = timedelta(minutes=30)
"""As long as torch itself waits for a group's members."""


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
    source, context = function.__code__.co_filename, None
    try:
        api = Api(task["needs"])  # Importing them is still part of starting.
        pipe.send({"phase": "init"})
        faulthandler.dump_traceback_later(task["deadline_s"], file=stacks)
        context = context_of(task, api)
        join(task)
        pipe.send({"phase": "body"})
        function(context, **task["params"])
    except SystemExit:
        raise  # Leaving without a report is what is to be seen.
    except BaseException as error:  # noqa: BLE001 - whatever was raised is the result
        report = report_of(context, error, source, CheckFault)
        pipe.send({"report": report})
    else:
        report = report_of(context, None, source, CheckFault)
        pipe.send({"phase": "report", "report": report})
    faulthandler.cancel_dump_traceback_later()
    pipe.recv()  # The release.
    if not report["error"] and dist.is_initialized():  # After an error it can hang.
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def context_of(task: dict[str, Any], api: Api) -> Context:
    """Return what the check is handed."""
    device = torch.device(task["device"])
    if device.type != "cpu":
        accelerator = getattr(torch, device.type)
        device = torch.device(device.type, task["rank"] % accelerator.device_count())
        accelerator.set_device(device)
    return Context(
        rank=task["rank"],
        world_size=task["world_size"],
        device=device,
        backend=task["backend"],
        directory=Path(task["directory"]),
        stage=task["stage"],
        api=api,
    )


def join(task: dict[str, Any]) -> None:
    """Join the process group by a file: torch decodes no address, so that the path of ``file://`` could hold no space."""
    if task["process_group"]:
        store = dist.FileStore(task["rendezvous"], task["world_size"])
        store.set_timeout(RENDEZVOUS_TIMEOUT)
        dist.init_process_group(
            task["backend"],
            store=dist.PrefixStore("default_pg", store),
            rank=task["rank"],
            world_size=task["world_size"],
        )
