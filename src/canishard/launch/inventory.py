"""What a child with torch loaded tells the parent: which cases there are, and what is installed.

Child side only; every answer is plain data.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import itertools
import pkgutil
import platform
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from canishard import check as declared
from canishard.catalogue.digest import digest
from canishard.catalogue.ids import SAFE

PINNED_PACKAGES = ("numpy", "safetensors")
"""Distributions beside torch that checks use; their versions belong to the variant."""


def _modules(names: list[str]) -> list[Any]:
    """Import the given modules, packages with all their submodules."""
    modules = []
    for name in names:
        module = importlib.import_module(name)
        inner = pkgutil.iter_modules(module.__path__, f"{name}.") if hasattr(module, "__path__") else ()
        modules += [module, *(importlib.import_module(found.name) for found in inner)]
    return modules


def _ids(check: declared.Check) -> list[tuple[str, dict[str, Any]]]:
    """Return the id and the parameters of every case of a check, world sizes left out."""
    found = []
    for values in itertools.product(*check.params.values()):
        params = dict(zip(check.params, values, strict=True))
        bracket = ",".join(f"{name}={value}" for name, value in params.items())
        name = f"{check.family}.{check.subject}" + (f"[{bracket}]" if bracket else "")
        found.append((name + (f"+{check.workaround}" if check.workaround else ""), params))
    return found


def _names(check: declared.Check) -> tuple[list[str], str]:
    """Return the old names that stood in for the first ones, and in words what was not found at all."""
    old, missing = [], []
    for need in check.needs:
        try:
            name, _ = declared.find(need)
        except LookupError:
            missing.append(
                f"{need[0]} does not exist" + (f" (nor {', '.join(need[1:])})" if need[1:] else "")
            )
            continue
        if name != need[0]:
            old.append(name)
    return old, "; ".join(missing)


def _cases(check: declared.Check) -> list[dict[str, Any]]:
    module = sys.modules[check.function.__module__]
    names, missing = _names(check)
    common = {
        "digest": digest(Path(str(module.__file__)), check.function.__name__),
        "family": check.family,
        "feature": check.feature,
        "title": check.title,
        "module": check.function.__module__,
        "function": check.function.__name__,
        "workaround": check.workaround or "",
        "needs": [list(need) for need in check.needs],
        "missing": missing,
        "names": names,
        "rests_on": list(check.rests_on),
        "packages": list(check.packages),
        "absent_packages": [name for name in check.packages if importlib.util.find_spec(name) is None],
        "slow": check.slow,
        "deadline_s": check.deadline_s,
    }
    return [
        {
            **common,
            "id": name,
            "params": params,
            "world_size": world_size,
            "stages": [
                [stage.name, stage.world_size or world_size, stage.process_group] for stage in check.stages
            ],
        }
        for name, params in _ids(check)
        for world_size in check.world_sizes
    ]


def cases(modules: list[str]) -> list[dict[str, Any]]:
    """Return every case that the given modules declare; raise ValueError when two have one id and world size."""
    names = {module.__name__ for module in _modules(modules)}
    found = [
        case for check in declared.CHECKS if check.function.__module__ in names for case in _cases(check)
    ]
    keys = [(case["id"], case["world_size"]) for case in found]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        msg = f"declared twice: {twice}"
        raise ValueError(msg)
    return found


# ---- a project's own checks ------------------------------------------------------------------------


class _Fault(Exception):
    """What is wrong with a project's own checks, in words."""


class _Absent(_Fault):
    """Something that they import is not there, or does not work: that may be so on this release alone."""


def collect(modules: list[str], own: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return ``{"cases": [...]}`` of the given modules and of a project's own, or ``{"fault": ..., "absent": ...}``.

    ``own`` maps what a user said to the modules that it stands for, each with its file where that is known.
    """
    if not own:
        return {"cases": cases(modules)}
    names = {module.__name__ for module in _modules(modules)}
    ours = {check.family for check in declared.CHECKS if check.function.__module__ in names}
    try:
        for said, named in own.items():
            _load_own(said, named, ours)
        others = dict.fromkeys(name for named in own.values() for name in named)
        return {"cases": cases([*modules, *others])}
    except _Fault as fault:
        return {"fault": str(fault), "absent": isinstance(fault, _Absent)}
    except ValueError as error:
        return {"fault": f"{', '.join(own)}: {error}", "absent": False}


def _load_own(said: str, named: dict[str, str], ours: set[str]) -> None:
    """Import the modules that one argument stands for, and look whether their checks can be run beside ours."""
    loaded = [module for name, file in named.items() for module in _own_modules(said, name, file)]
    names = {module.__name__ for module in loaded}
    found = [check for check in declared.CHECKS if check.function.__module__ in names]
    if not found:
        msg = f"{said}: declares no check; a check is a function with canishard.check.check as its decorator"
        raise _Fault(msg)
    for check in found:
        if check.family in ours:
            msg = f"{said}: {check.family} is a family of canishard's own; give the module another name"
            raise _Fault(msg)
        _require_plain(said, check)


def _own_modules(said: str, name: str, file: str) -> list[Any]:
    try:
        modules = _modules([name])
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            msg = f"{said}: neither a file or folder, nor a module that can be imported here"
            raise _Fault(msg) from None
        raise _Absent(_not_imported(said, error)) from None
    except (ImportError, OSError) as error:
        raise _Absent(_not_imported(said, error)) from None
    except BaseException as error:  # noqa: BLE001 - whatever stops it (pytest.skip, sys.exit) is to be mended
        raise _Fault(_not_imported(said, error)) from None
    found = str(getattr(modules[0], "__file__", ""))
    if file and Path(found).resolve() != Path(file).resolve():
        msg = (
            f"{said}: the name {name} stands for {found or 'another module'} here; give the file another name"
        )
        raise _Fault(msg)
    return modules


def _not_imported(said: str, error: BaseException) -> str:
    text = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{said}: cannot be imported: {type(error).__name__}: {text}{where}"


def _require_plain(said: str, check: declared.Check) -> None:
    """Raise _Fault unless a check's parameters and world sizes can stand in an id, and in a record."""
    name = f"{said}: {check.family}.{check.subject}"
    for key, values in check.params.items():
        odd = [value for value in values if not isinstance(value, str | int | float | bool)]
        if odd:
            msg = f"{name}: {key}={odd[0]!r}: expected texts, numbers and booleans as parameters"
            raise _Fault(msg)
    odd_ids = [case_id for case_id, _ in _ids(check) if not re.match(SAFE, case_id)]
    if odd_ids:
        msg = f"{name}: {odd_ids[0]!r} is no id: no blank may be in it, nor any of ` | < > \\"
        raise _Fault(msg)
    sizes: tuple[Any, ...] = check.world_sizes
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        msg = f"{name}: world_sizes={check.world_sizes}: expected numbers of ranks"
        raise _Fault(msg)


# ---- what is installed -----------------------------------------------------------------------------


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _nccl() -> str:
    if torch.version.cuda is None or not torch.distributed.is_nccl_available():
        return ""
    return ".".join(str(part) for part in torch.cuda.nccl.version())


def _accelerators() -> dict[str, dict[str, int]]:
    """Return how many devices of which kind there are, by type."""
    found = {}
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            names = [module.get_device_name(number) for number in range(module.device_count())]
            found[kind] = {name: names.count(name) for name in names}
    return found


def describe() -> dict[str, Any]:
    """Return what is installed here, for the environment and the variant of a record."""
    distributed = torch.distributed
    versions = {name: _version(name) for name in PINNED_PACKAGES}
    return {
        "torch": str(torch.__version__),
        "git_version": str(torch.version.git_version),
        "cuda": torch.version.cuda or "",
        "hip": torch.version.hip or "",
        "nccl": _nccl(),
        "driver": torch.cuda.is_available(),
        "accelerators": _accelerators(),
        "devices": {"cpu": 0, "cuda": torch.cuda.device_count()},
        "backends": [
            name
            for name in ("gloo", "nccl", "mpi", "ucc", "xccl")
            if getattr(distributed, f"is_{name}_available", lambda: False)()
        ],
        "python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        "system": platform.system(),
        "machine": platform.machine(),
        "packages": {name: version for name, version in versions.items() if version},
    }
