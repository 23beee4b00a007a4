"""Where checks ran: the series that a record belongs to, and the exact build it was measured on.

Both are made of a plain description that a child process sends, since the
parent never imports torch.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from packaging.version import InvalidVersion, Version

from canishard.errors import InfraError

Flavour = Literal["cpu", "cuda", "cuda-nodriver", "rocm"]
"""The build; ``cuda-nodriver`` is a CUDA build on a machine without a usable driver."""

MOVING_CHANNELS = ("nightly", "local")
"""Channels that name no stable release: torch's nightly builds, and whatever is installed."""


class Environment(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, order=True):
    """The series: what stays the same when a record is measured again."""

    channel: str
    """A stable release (``2.8.0``), ``nightly`` or ``local``."""
    flavour: Flavour
    backend: str
    """As torch takes it: ``gloo``, ``cpu:gloo,cuda:nccl``, a third party's name."""
    device: str
    """The device's type: ``cpu``, ``cuda``, ``xpu``."""
    python: str
    """Major and minor: ``3.11``."""
    system: str
    """``linux``, ``darwin``, ``windows``."""
    machine: str
    """``x86_64``, ``arm64``."""

    @property
    def name(self) -> str:
        """Return the stem of the record's file, the same for the same series on every file system."""
        parts = [self.channel, self.flavour, _safe(self.backend), _safe(self.device)]
        python = "cp" + _safe(self.python).replace(".", "")
        return "-".join(["torch", *parts, python, _safe(self.system), _safe(self.machine)])

    @property
    def is_stable(self) -> bool:
        """Tell whether this is a stable release's column, which can be a baseline; a pre-release's is none."""
        try:
            version = Version(self.channel)
        except InvalidVersion:
            return False
        return not version.is_prerelease and version.local is None


class Variant(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The exact build, and where it ran; ``conditions`` says what of it decides."""

    torch: str
    """``torch.__version__``, local part included."""
    git_version: str
    cuda: str | None
    hip: str | None = None
    nccl: str | None
    python: str
    """With its patch: ``3.11.9``."""
    glibc: str
    """Empty where the system has none."""
    packages: dict[str, str]
    """The versions of the packages that are pinned for this release."""


class Description(msgspec.Struct, kw_only=True, frozen=True):
    """What a child process says of where it runs; it may say more."""

    torch: str
    git_version: str
    cuda: str | None
    hip: str | None
    nccl: str | None
    driver: bool
    """Whether a CUDA driver is usable."""
    python: str
    glibc: str
    system: str
    machine: str
    packages: dict[str, str] = {}
    accelerators: dict[str, dict[str, int]] = {}
    """How many of which kind there are, by the device's type."""


def _safe(text: str) -> str:
    """Return text that is safe in a file's name, and another for every other text.

    ``:`` becomes ``=`` and ``,`` becomes ``+``; ``-``, which separates the parts of a name, and all else
    that is no letter, digit, point or underscore becomes its code: ``cpu:gloo,cuda:my-ccl`` is
    ``cpu=gloo+cuda=my~2dccl``.
    """
    text = re.sub(r"[^A-Za-z0-9_.:,]", lambda found: f"~{ord(found[0]):02x}", text)
    return text.replace(":", "=").replace(",", "+")


def from_description(
    description: dict[str, Any], backend: str, device: str, channel: str
) -> tuple[Environment, Variant]:
    """Return the series and the build that a child's description stands for.

    Raises InfraError where the description is incomplete, or torch is not the release that ``channel`` names.
    """
    found = _read(description)
    if channel not in MOVING_CHANNELS:
        require_release(channel, found.torch)
    environment = Environment(
        channel=channel,
        flavour=_flavour(found),
        backend=backend,
        device=device,
        python=".".join(found.python.split(".")[:2]),
        system=found.system.lower(),
        machine=found.machine,
    )
    variant = Variant(
        torch=found.torch,
        git_version=found.git_version,
        cuda=found.cuda,
        hip=found.hip,
        nccl=found.nccl,
        python=found.python,
        glibc=found.glibc,
        packages=found.packages,
    )
    return environment, variant


def devices(description: dict[str, Any], device: str) -> dict[str, int]:
    """Return how many devices of a type, of which kind, a child found; none for ``cpu``."""
    return _read(description).accelerators.get(device, {})


def _read(description: dict[str, Any]) -> Description:
    try:
        return msgspec.convert(description, Description)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at ")
        msg = f"the description of the environment that the child sent: {at.strip('`$.') or 'top'}: {text}"
        raise InfraError(msg) from None


def _flavour(found: Description) -> Flavour:
    if found.hip:
        return "rocm"
    if not found.cuda:
        return "cpu"
    return "cuda" if found.driver else "cuda-nodriver"


def satisfies(asked: str, found: str) -> bool:
    """Tell whether what is installed is what was asked for: ``2.13.0+cpu`` is 2.13.0, ``2.13.0a0`` is not."""
    try:
        wanted, installed = Version(asked), Version(found)
    except InvalidVersion:
        return False
    if wanted.local is not None:
        return wanted == installed
    return Version(wanted.public) == Version(installed.public)


def require_release(asked: str, found: str) -> None:
    """Raise InfraError unless the torch that was found is the release asked for."""
    if not satisfies(asked, found):
        msg = (
            f"torch {found} is installed where {asked} was asked for; install that release and measure again"
        )
        raise InfraError(msg)


def channel_key(channel: str) -> tuple[int, Version, str]:
    """Return what sorts channels by age: stable releases by version, then ``nightly``, then ``local``."""
    try:
        return 0, Version(channel), channel
    except InvalidVersion:
        rank = MOVING_CHANNELS.index(channel) + 1 if channel in MOVING_CHANNELS else len(MOVING_CHANNELS) + 1
        return rank, Version("0"), channel
