"""The plugin's options, and what a process of a run under pytest registers.

Two plugins, each with one job. ``items.Runner`` lives where items run (an xdist worker, or the only process):
it owns the launcher, collects the cases and runs them. ``recorder.Recorder`` lives in the controlling process:
it sees every outcome as it comes, keeps it in the journal, writes the record and decides the exit code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from canishard.items import Runner
from canishard.launch import START_METHODS, processes
from canishard.launch.launcher import SPAWN_SAMPLE
from canishard.recorder import Recorder
from canishard.session_state import SessionState

DIE_WITH_PARENT = "CANISHARD_DIE_WITH_PARENT"
"""Environment variable that the noxfile sets: a run whose nox is killed ends too."""


def add_options(group: Any) -> None:
    """Declare the command line options."""
    group.addoption(
        "--backend", default="gloo", help="as init_process_group takes it: gloo, cpu:gloo,cuda:nccl"
    )
    group.addoption(
        "--backend-module", default="", metavar="PKG", help="package whose import registers the backend"
    )
    group.addoption("--device", default="cpu", help="device type of the tensors: cpu, cuda, xpu")
    group.addoption("--world-size", type=int, action="append", metavar="N", help="only these world sizes")
    group.addoption("--case", action="append", metavar="ID", help="only cases of this id; * and ? are wild")
    group.addoption(
        "--record", type=Path, metavar="PATH", help="write the record to this file, or into this folder"
    )
    group.addoption("--release", default="", metavar="VERSION", help="the torch that must be installed here")
    group.addoption("--start-method", choices=START_METHODS, default="auto", help="how ranks are started")
    group.addoption(
        "--spawn-sample", type=int, default=SPAWN_SAMPLE, metavar="N", help="cases confirmed by spawn"
    )
    group.addoption(
        "--state", type=Path, default=Path(".canishard"), metavar="DIR", help="this machine's journal"
    )
    group.addoption("--fresh", action="store_true", help="measure everything, whatever is known")
    group.addoption("--reuse-committed", action="store_true", help="take cells of the record as known")
    group.addoption("--summary", type=Path, metavar="FILE", help="write what happened to this file, as JSON")


def register(config: pytest.Config) -> None:
    """Register the plugins that this process needs."""
    if os.environ.get(DIE_WITH_PARENT):
        processes.die_with_parent(os.getppid())
    is_worker = hasattr(config, "workerinput")
    is_distributed = not is_worker and bool(
        config.getoption("numprocesses", None) or config.getoption("tx", None)
    )
    state = SessionState(config)
    if not is_distributed:
        config.pluginmanager.register(Runner(state), "canishard-runner")
    if not is_worker:
        config.pluginmanager.register(Recorder(state, is_distributed=is_distributed), "canishard-recorder")
