"""What a check is written with: the decorator (of ``declare``), the context it is handed, comparison and deviations.

A check imports this module, and modules below ``canishard.checks`` that it shares with others. They import torch and
the standard library, nothing else, so that a check together with them is a stand-alone script.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from canishard.declare import CHECKS, Check, Row, Stage, check

__all__ = ["CHECKS", "Api", "Check", "CheckFault", "Context", "Row", "Stage", "check", "scaled"]

TOLERANCES: Mapping[torch.dtype, tuple[float, float]] = {
    # (rtol, atol). A float32 sum of a few hundred terms in another order differs by some 1e-6; the faults
    # looked for (a factor, a swapped shard, a dropped element) differ by 1e-2 and more.
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-6),
    # Half types keep 8 and 11 bits: one rounding is 4e-3 and 5e-4, and a training step makes several.
    torch.bfloat16: (2e-2, 2e-2),
    torch.float16: (2e-3, 2e-3),
}
"""Allowed difference by dtype of the wanted value; every other dtype is compared exactly."""


class CheckFault(Exception):
    """A check is itself at fault: it compared nothing, or its known wrong value equals the right one."""


def resolve(dotted: str) -> Any:
    """Import what a dotted name stands for, or raise LookupError when this release does not have it."""
    head, _, name = dotted.rpartition(".")
    # The attribute first: fully_shard of torch 2.4 is a function in a module of the same name.
    if head and hasattr(parent := resolve(head), name):
        return getattr(parent, name)
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name and f"{dotted}.".startswith(f"{error.name}."):
            raise LookupError(dotted) from None
        raise  # The module exists, and something that it imports does not.


def find(need: Sequence[str]) -> tuple[str, Any]:
    """Return the first of several dotted names that exists, with what it stands for; LookupError if none."""
    for dotted in need:
        try:
            return dotted, resolve(dotted)
        except LookupError:
            continue
    raise LookupError(", ".join(need))


class Api:
    """What a check asked for in ``needs``, as attributes."""

    def __init__(self, needs: Sequence[Sequence[str]]) -> None:
        self._found = {need[0].rpartition(".")[2]: find(need) for need in needs}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._found[name][1]
        except KeyError:
            msg = f"{name} is not among the needs of this check"
            raise CheckFault(msg) from None


@dataclass
class Context:
    """What a check is handed on each rank: where it is, and how it says what it saw.

    ``directory`` is shared by the ranks and the stages of the case, and empty when the first stage starts.
    A difference is noted and the check goes on, so that no rank leaves its peers alone in a collective.
    """

    rank: int
    world_size: int
    device: torch.device
    backend: str
    directory: Path
    stage: str
    api: Api
    compared: int = 0
    mismatches: list[dict[str, Any]] = field(default_factory=list)
    measurements: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def equal(
        self,
        label: str,
        got: Any,
        wanted: Any,
        *,
        wrong: Mapping[str, Any] | None = None,
        exact: bool = False,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        """Compare a value with the oracle's: tensors, plain values, or dicts, lists and tuples of them.

        ``wrong`` maps the name of a deviation to the value that it would give. Tensors must agree in shape
        and dtype too; ``exact`` asks for equal bits, ``rtol`` and ``atol`` replace ``TOLERANCES``.

        Raises CheckFault when a known wrong value cannot be told from the right one.
        """
        tolerance = (0.0, 0.0) if exact else None
        if rtol is not None or atol is not None:
            tolerance = (rtol or 0.0, atol or 0.0)
        self.compared += 1
        differing = differences(got, wanted, tolerance)
        known = dict(wrong or {})
        for name, value in known.items():
            if not differences(value, wanted, tolerance):
                msg = f"{label}: the known wrong value {name!r} equals the right one"
                raise CheckFault(msg)
        if not differing:
            return
        named = [name for name, value in known.items() if not differences(got, value, tolerance)]
        path, got_leaf, wanted_leaf = differing[0]
        self.mismatches.append(
            {
                "label": f"{label}{path}",
                "differing": len(differing),
                "of": len(leaves(wanted)),
                "got": shown(got_leaf),
                "wanted": shown(wanted_leaf),
                "max_abs_diff": max_abs_diff(got_leaf, wanted_leaf),
                "deviations": named,
            }
        )

    def measure(self, name: str, value: float) -> None:
        """Keep a number as evidence; it decides nothing."""
        self.measurements[name] = value

    def note(self, text: str) -> None:
        """Keep a remark as evidence, such as an argument that this release alone requires."""
        self.notes.append(text)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten dicts, lists and tuples to ``{path: leaf}``; an empty container is a leaf."""
    if isinstance(value, Mapping) and value:
        items = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)) and value:
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for key, item in items for name, leaf in leaves(item, key).items()}


def differences(got: Any, wanted: Any, tolerance: tuple[float, float] | None) -> list[tuple[str, Any, Any]]:
    """List ``(path, got, wanted)`` of every leaf that differs, the largest difference first."""
    got_leaves, wanted_leaves = leaves(got), leaves(wanted)
    paths = [*wanted_leaves, *(path for path in got_leaves if path not in wanted_leaves)]
    pairs = [(path, got_leaves.get(path, "(absent)"), wanted_leaves.get(path, "(absent)")) for path in paths]
    differing = [pair for pair in pairs if not agrees(pair[1], pair[2], tolerance)]
    return sorted(differing, key=lambda pair: -(max_abs_diff(pair[1], pair[2]) or 0.0))


def agrees(got: Any, wanted: Any, tolerance: tuple[float, float] | None) -> bool:
    """Tell whether two leaves agree: type, and for tensors shape, dtype and values within the tolerance."""
    if not isinstance(wanted, torch.Tensor) or not isinstance(got, torch.Tensor):
        return type(got) is type(wanted) and bool(got == wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    got, wanted = got.detach().cpu(), wanted.detach().cpu()
    rtol, atol = tolerance or TOLERANCES.get(wanted.dtype, (0.0, 0.0))
    if rtol == atol == 0.0:
        return torch.equal(got, wanted)
    return torch.allclose(got.double(), wanted.double(), rtol=rtol, atol=atol, equal_nan=True)


def max_abs_diff(got: Any, wanted: Any) -> float | None:
    """Return the largest difference of two tensors of one shape, inf where one is not finite, else None."""
    if not isinstance(got, torch.Tensor) or not isinstance(wanted, torch.Tensor) or got.shape != wanted.shape:
        return None
    if got.numel() == 0 or got.is_complex() or wanted.is_complex():
        return None
    difference = (got.detach().cpu().double() - wanted.detach().cpu().double()).abs()
    return float(difference.nan_to_num(nan=float("inf")).max())


def shown(leaf: Any) -> str:
    """Return a leaf as short text: a tensor's first eight values, with its shape and dtype."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)[:200]
    values = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in
                       leaf.detach().cpu().flatten()[:8].tolist())  # fmt: skip
    more = ", ..." if leaf.numel() > 8 else ""  # noqa: PLR2004 - as said above
    return f"[{values}{more}] shape={tuple(leaf.shape)} dtype={str(leaf.dtype).removeprefix('torch.')}"


def scaled(tree: Any, factor: float) -> Any:
    """Return a copy of a tree of tensors with every tensor multiplied by ``factor``."""
    if isinstance(tree, Mapping):
        return {key: scaled(item, factor) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(scaled(item, factor) for item in tree)
    return tree * factor if isinstance(tree, torch.Tensor) else tree
