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
    # One rounding of these is off by 5e-4 and 4e-3 at most: one hundredth in one element has to be seen.
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (6e-3, 5e-4),
    torch.complex128: (1e-12, 1e-12),
    torch.complex64: (1e-5, 1e-6),
    torch.complex32: (2e-3, 2e-3),
}
"""Allowed difference by dtype of the wanted value, plain floats being float64; all else is compared exactly."""


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
        and dtype too; ``exact`` asks for equal bits, so that -0.0 is not 0.0; ``rtol`` and ``atol`` replace
        ``TOLERANCES``, and of a complex number they bound its larger part. However it is compared, NaN agrees with
        NaN in the same place, whatever its bits, and with nothing else; so does an infinity with its like.

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


def _inner(value: Any) -> dict[str, Any] | None:
    """Return what a container holds, by the text of each place in it; None for anything else."""
    if isinstance(value, Mapping):
        return {f"[{key!r}]": item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return {f"[{index}]": item for index, item in enumerate(value)}
    return None


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten dicts, lists and tuples to ``{path: leaf}``; an empty container is a leaf."""
    inner = _inner(value)
    if not inner:
        return {path: value}
    return {name: leaf for key, item in inner.items() for name, leaf in leaves(item, f"{path}{key}").items()}


def _pairs(got: Any, wanted: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """List ``(path, got, wanted)`` of every place in either; a dict and a list are two things whatever they hold."""
    here, there = _inner(got), _inner(wanted)
    if here is None or there is None or isinstance(got, Mapping) is not isinstance(wanted, Mapping):
        return [(path, got, wanted)]
    places = [(key, here.get(key, "(absent)"), there.get(key, "(absent)")) for key in {**there, **here}]
    return [pair for key, one, other in places for pair in _pairs(one, other, f"{path}{key}")]


def differences(got: Any, wanted: Any, tolerance: tuple[float, float] | None) -> list[tuple[str, Any, Any]]:
    """List ``(path, got, wanted)`` of every leaf that differs, the largest difference first."""
    differing = [pair for pair in _pairs(got, wanted) if not agrees(pair[1], pair[2], tolerance)]
    return sorted(differing, key=lambda pair: -(max_abs_diff(pair[1], pair[2]) or 0.0))


def agrees(got: Any, wanted: Any, tolerance: tuple[float, float] | None) -> bool:
    """Tell whether two leaves agree: type, and for tensors shape, dtype and values; see ``Context.equal``."""
    if type(got) is type(wanted) and type(wanted) in {float, complex}:
        dtype = torch.float64 if type(wanted) is float else torch.complex128
        got, wanted = torch.tensor(got, dtype=dtype), torch.tensor(wanted, dtype=dtype)
    if not isinstance(wanted, torch.Tensor) or not isinstance(got, torch.Tensor):
        return type(got) is type(wanted) and bool(got == wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    rtol, atol = TOLERANCES.get(wanted.dtype, (0.0, 0.0)) if tolerance is None else tolerance
    got, wanted = _real_parts(got), _real_parts(wanted)
    numbers, right = _as_doubles(got), _as_doubles(wanted)
    if rtol == atol == 0.0 or numbers is None or right is None:
        same = (_bytes_of(got) == _bytes_of(wanted)).all(-1)
        return bool((same if right is None else same | _both_nan(numbers, right).flatten()).all())
    same = ((numbers == right) | _both_nan(numbers, right)).all(-1)
    near = (numbers - right).abs().amax(-1) <= atol + rtol * right.abs().amax(-1)
    return bool((same | (near & right.isfinite().all(-1))).all())


def _both_nan(numbers: Any, right: Any) -> Any:
    return numbers.isnan() & right.isnan()


def _real_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements on the CPU, the real parts of each along a last dimension."""
    plain = tensor.detach().cpu()
    plain = (plain if plain.layout is torch.strided else plain.to_dense()).resolve_conj().resolve_neg()
    return torch.view_as_real(plain) if plain.is_complex() else plain.unsqueeze(-1)


def _as_doubles(parts: torch.Tensor) -> torch.Tensor | None:
    """Return numbers as float64; None of a kind that torch does not convert: its bytes are all there is."""
    try:
        return parts.double()
    except RuntimeError:
        return None


def _bytes_of(parts: torch.Tensor) -> torch.Tensor:
    return parts.flatten().contiguous().view(torch.uint8).reshape(parts.numel(), parts.element_size())


def max_abs_diff(got: Any, wanted: Any) -> float | None:
    """Return the largest difference of two tensors of one shape, inf where one is not finite.

    None for anything else, and for kinds of numbers that torch does not convert.
    """
    if not isinstance(got, torch.Tensor) or not isinstance(wanted, torch.Tensor) or got.shape != wanted.shape:
        return None
    if got.numel() == 0 or got.is_complex() is not wanted.is_complex():
        return None
    numbers, right = _as_doubles(_real_parts(got)), _as_doubles(_real_parts(wanted))
    if numbers is None or right is None:
        return None
    difference = (numbers - right).masked_fill((numbers == right) | _both_nan(numbers, right), 0.0)
    return float(difference.norm(dim=-1).nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def shown(leaf: Any) -> str:
    """Return a leaf as short text: a tensor's first eight values, with its shape and dtype."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)[:200]
    first = leaf.detach().cpu().flatten()[:8]
    try:
        values = first.tolist()
    except RuntimeError:  # A kind that torch gives no numbers of.
        values = [f"0x{bytes(element).hex()}" for element in _bytes_of(first).tolist()]
    text = ", ".join(
        f"{value:.6g}" if isinstance(value, (float, complex)) else str(value) for value in values
    )
    more = ", ..." if leaf.numel() > 8 else ""  # noqa: PLR2004 - as said above
    return f"[{text}{more}] shape={tuple(leaf.shape)} dtype={str(leaf.dtype).removeprefix('torch.')}"


def scaled(tree: Any, factor: float) -> Any:
    """Return a copy of a tree of tensors with every tensor multiplied by ``factor``."""
    if isinstance(tree, Mapping):
        return {key: scaled(item, factor) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(scaled(item, factor) for item in tree)
    return tree * factor if isinstance(tree, torch.Tensor) else tree
