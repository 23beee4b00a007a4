"""What a child with torch loaded tells the parent: which cases there are, and what is installed.

Child side only; every answer is plain data.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import platform
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from canishard import declare
from canishard.catalogue import expansion
from canishard.catalogue.digest import digest
from canishard.catalogue.ids import SAFE
from canishard.check import find

PINNED_PACKAGES = ("numpy", "safetensors")
"""Distributions beside torch that checks use; their versions belong to the variant."""


def _modules(names: list[str]) -> list[Any]:
    """Import the given modules, packages with all that is in them, in the order in which the catalogue has them."""
    modules = []
    for name in names:
        module = importlib.import_module(name)
        inner = pkgutil.iter_modules(module.__path__, f"{name}.") if hasattr(module, "__path__") else ()
        modules += [module, *_modules([found.name for found in inner])]
    return modules


def _rows(check: declare.Check) -> list[expansion.Expanded]:
    """Return the rows of a check, expanded as the catalogue does."""
    tables = {
        name: {key: expansion.Labels(**_labels(entry)) for key, entry in table.items()}
        for name, table in check.rows.items()
    }
    given = {
        name: getattr(check, name)
        for name in expansion.Declared.__struct_fields__
        if name not in {"function", "rows"}
    }
    return expansion.expand(expansion.Declared(function=check.function.__name__, rows=tables, **given))


def _labels(entry: Any) -> dict[str, Any]:
    return (
        {name: value for name, value in vars(entry).items() if name != "recipe"}
        if isinstance(entry, declare.Row)
        else {}
    )


def _names(needs: list[list[str]]) -> tuple[list[str], str]:
    """Return the old names that stood in for the first ones, and in words what was not found at all."""
    old, missing = [], []
    for need in needs:
        try:
            name, _ = find(need)
        except LookupError:
            missing.append(
                f"{need[0]} does not exist" + (f" (nor {', '.join(need[1:])})" if need[1:] else "")
            )
            continue
        if name != need[0]:
            old.append(name)
    return old, "; ".join(missing)


def _cases(check: declare.Check) -> Iterator[dict[str, Any]]:
    module = sys.modules[check.function.__module__]
    for row in _rows(check):
        names, missing = _names(row.needs)
        function = check.function.__name__
        common = {
            "id": row.id,
            "params": row.params,
            "digest": digest(Path(str(module.__file__)), function, row.params, row.entry),
            "family": check.family,
            "feature": row.feature,
            "title": row.title,
            "module": check.function.__module__,
            "function": function,
            "workaround": check.workaround or "",
            "needs": row.needs,
            "missing": missing,
            "names": names,
            "rests_on": row.rests_on,
            "packages": row.packages,
            "absent_packages": [name for name in row.packages if importlib.util.find_spec(name) is None],
            "slow": check.slow,
            "deadline_s": check.deadline_s,
        }
        for world_size in row.world_sizes:
            stages = [
                [stage.name, stage.world_size or world_size, stage.process_group] for stage in check.stages
            ]
            yield {**common, "world_size": world_size, "stages": stages}


def cases(modules: list[str]) -> list[dict[str, Any]]:
    """Return every case that the given modules declare; raise ValueError when two have one id and world size."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for module in dict.fromkeys(module.__name__ for module in _modules(modules)):
        for check in declare.CHECKS:
            for case in _cases(check) if check.function.__module__ == module else ():
                other = found.setdefault((case["id"], case["world_size"]), case)
                if other is not case:
                    places = " and ".join(f"{one['module']}.{one['function']}" for one in (other, case))
                    msg = f"{case['id']}: declared twice, by {places}"
                    raise ValueError(msg)
    return list(found.values())


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
    ours = {check.family for check in declare.CHECKS if check.function.__module__ in names}
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
    found = [check for check in declare.CHECKS if check.function.__module__ in names]
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


def _require_plain(said: str, check: declare.Check) -> None:
    """Raise _Fault unless a check's parameters and world sizes can stand in an id, and in a record."""
    name = f"{said}: {check.family}.{check.subject}"
    for key, values in check.params.items():
        odd = [value for value in values if not isinstance(value, str | int | float | bool)]
        if odd:
            msg = f"{name}: {key}={odd[0]!r}: expected texts, numbers and booleans as parameters"
            raise _Fault(msg)
    odd_ids = [row.id for row in _rows(check) if not re.match(SAFE, row.id)]
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
