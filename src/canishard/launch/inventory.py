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
import sys
from pathlib import Path
from typing import Any

import torch

from canishard import check as declared
from canishard.digest import digest

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


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _nccl() -> str:
    if torch.version.cuda is None or not torch.distributed.is_nccl_available():
        return ""
    return ".".join(str(part) for part in torch.cuda.nccl.version())


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
