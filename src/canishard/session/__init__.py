"""The plugin's options, and what a process of a run under pytest registers.

Two plugins, each with one job. ``items.Runner`` lives where items run (an xdist worker, or the only process):
it owns the launcher, collects the cases and runs them. ``recorder.Recorder`` lives in the controlling process:
it sees every outcome as it comes, keeps it in the journal, writes the record and decides the exit code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from canishard.errors import ConfigurationError
from canishard.launch import START_METHODS, OwnChecks, own, processes
from canishard.launch.launcher import SAMPLE
from canishard.session import items
from canishard.session.items import Runner
from canishard.session.recorder import Recorder
from canishard.session.state import SessionState

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
        "--checks",
        action="append",
        metavar="PATH",
        help="a project's own checks beside ours: file, folder, module",
    )
    group.addoption(
        "--record", type=Path, metavar="PATH", help="write the record to this file, or into this folder"
    )
    group.addoption("--release", default="", metavar="VERSION", help="the torch that must be installed here")
    group.addoption("--start-method", choices=START_METHODS, default="auto", help="how ranks are started")
    group.addoption(
        "--spawn-sample",
        type=int,
        default=SAMPLE,
        metavar="N",
        help="cases confirmed whatever they do, a few by spawn",
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
    state = SessionState(config, _own_checks(config))
    if not is_distributed:
        config.pluginmanager.register(Runner(state), "canishard-runner")
    if not is_worker:
        config.pluginmanager.register(Recorder(state, is_distributed=is_distributed), "canishard-recorder")


# ---- a project's own checks ----------------------------------------------------------------------


def _own_checks(config: pytest.Config) -> OwnChecks:
    """Return the checks that the command line adds, or end the run in one line."""
    said = config.option.checks or []
    try:
        return find_checks(said, config.invocation_params.dir)
    except ConfigurationError as error:
        pytest.exit(f"canishard: {error}", returncode=error.exit_code)


def find_checks(arguments: Sequence[str], folder: Path) -> OwnChecks:
    """Return the modules that files, folders and dotted names stand for; paths are relative to ``folder``.

    Raises ConfigurationError where there is no such thing, or two files would be one module.
    """
    if not arguments:
        return OwnChecks()
    found: dict[str, dict[str, str]] = {}
    folders: list[str] = []
    for argument in arguments:
        named = found.setdefault(f"--checks {argument}", {})
        for file in _files(argument, folder):
            name, root = own.place(file)
            named[name] = str(file)
            folders.append(str(root))
        if not named:
            named[_dotted(argument)] = ""
    _require_one_file_each(found)
    return OwnChecks(found, list(dict.fromkeys([*folders, *own.import_path(), str(folder)])))


def _files(argument: str, folder: Path) -> list[Path]:
    """Return the files that a path stands for; none where it is no path."""
    path = (folder / argument).resolve()
    if path.is_dir():
        found = [file for file in sorted(path.glob("[!_.]*.py")) if file.name != "conftest.py"]
        if not found:
            msg = f"--checks {argument}: the folder holds no file of checks: no *.py but those with a _ in front"
            raise ConfigurationError(msg)
        return found
    if path.is_file() and path.suffix != ".py":
        msg = f"--checks {argument}: expected a .py file, a folder of them, or a module's dotted name"
        raise ConfigurationError(msg)
    return [path] if path.is_file() else []


def _dotted(argument: str) -> str:
    if not all(part.isidentifier() for part in argument.split(".")) or argument.endswith(".py"):
        msg = f"--checks {argument}: no such file or folder, and no module's dotted name"
        raise ConfigurationError(msg)
    return argument


def _require_one_file_each(found: Mapping[str, Mapping[str, str]]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    ours = {folder.name for folder in items.CHECKS_DIRECTORY.glob("[!_]*") if folder.is_dir()}
    for said, named in found.items():
        for name, file in named.items():
            if file and name.rpartition(".")[2] in ours:
                msg = f"{said}: {name.rpartition('.')[2]} is a family of canishard's own; give {Path(file).name} another name"
                raise ConfigurationError(msg)
            before, other = seen.setdefault(name, (said, file))
            if file != other:
                msg = (
                    f"{said}: {file} and {other or before} would both be module {name}; give one another name"
                )
                raise ConfigurationError(msg)
