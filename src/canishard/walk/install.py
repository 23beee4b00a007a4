"""How a torch release is installed: requirements, index, options of the installer, and room on the disk.

Decides only; the noxfile installs. Runs in nox's own process, so it imports no torch; of ours,
``releases`` and ``errors``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.version import Version

from canishard.errors import ConfigurationError, DiskSpaceError
from canishard.releases import INSTALLED, Release

INDEX_VARIABLE = "CANISHARD_TORCH_INDEX"
"""The environment variable that says where torch comes from: the URL of an index, or ``pypi``."""

TORCH_VARIABLE = "CANISHARD_TORCH"
"""Names a torch beside the rows, a pre-release or a wheel: the noxfile then has a session for it."""

DEFAULT_INDEX = "pypi"
"""The word for: no index beside the installer's default one."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_S = 3.0

GB = 10**9
CPU_BUILD_BYTES = int(1.5 * GB)
CUDA_BUILD_BYTES = 7 * GB
"""What an environment and its part of the installer's cache take; hard links make them one."""
RESERVE_BYTES = 2 * GB
"""What is left alone: the records, the checks' temporary files, and the machine's own needs."""


_SAID_TO_INSTALLERS = (
    "INDEX_URL", "EXTRA_INDEX_URL", "DEFAULT_INDEX", "INDEX", "INDEX_STRATEGY", "FIND_LINKS", "NO_INDEX", "PRE",
    "PRERELEASE", "CONSTRAINT", "OVERRIDE", "NO_BINARY", "ONLY_BINARY", "EXCLUDE_NEWER",
)  # fmt: skip


def sources(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say where torch and what it needs come from, and which of them is taken."""
    names = [f"{tool}_{name}" for tool in ("PIP", "UV") for name in _SAID_TO_INSTALLERS]
    return {name: environ[name] for name in (INDEX_VARIABLE, *names) if environ.get(name)}


def requirements(release: Release) -> list[str]:
    """Return what to install for a release: torch, then its pins."""
    if release.version == INSTALLED:
        return list(release.pins)
    torch = f"torch @ {release.wheel.as_uri()}" if release.wheel else f"torch=={release.version}"
    return [torch, *release.pins]


def options(backend: str, release: Release, index: str) -> list[str]:
    """Return the options of ``uv pip install`` (backend ``uv``) or of ``pip install``.

    Among several indexes the best version counts, as pip has it: a CPU index's ``+cpu`` build is later than
    the same version without.
    """
    prerelease = release.version != INSTALLED and Version(release.version).is_prerelease
    if backend == "uv":
        # pip compiles what it installs; uv is told to. An import of torch without bytecode takes 15 s, not 5.
        chosen = ["--compile-bytecode"]
        if index != DEFAULT_INDEX:
            chosen += ["--index", index, "--index-strategy", "unsafe-best-match"]
        return chosen + (["--prerelease", "allow"] if prerelease else [])
    chosen = [] if index == DEFAULT_INDEX else ["--extra-index-url", index]
    return chosen + (["--pre"] if prerelease else [])


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell uv what pip's say, where uv's counterpart is not set.

    uv does not read pip's configuration.
    """
    passed = {}
    if "PIP_FIND_LINKS" in environ and "UV_FIND_LINKS" not in environ:
        passed["UV_FIND_LINKS"] = ",".join(map(_for_uv, environ["PIP_FIND_LINKS"].split()))
    if "PIP_INDEX_URL" in environ and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & environ.keys():
        passed["UV_DEFAULT_INDEX"] = environ["PIP_INDEX_URL"].strip()
    if "PIP_EXTRA_INDEX_URL" in environ and not {"UV_INDEX", "UV_EXTRA_INDEX_URL"} & environ.keys():
        passed["UV_INDEX"] = environ["PIP_EXTRA_INDEX_URL"].strip()
        if "UV_INDEX_STRATEGY" not in environ:
            # pip takes the best version of all indexes, uv the first index that has the package.
            passed["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return passed


def _for_uv(place: str) -> str:
    """Return a place to find wheels in as uv takes it: it parts places by commas, so that one in a name is escaped."""
    return Path(place).absolute().as_uri() if "," in place and "://" not in place else place


def require_one_place(root: Path) -> None:
    """Raise ConfigurationError where the folder cannot stand in PATH or PYTHONPATH: another Python would be run."""
    if os.pathsep in str(root):
        msg = f"{root}: the path holds a {os.pathsep!r}, which parts folders in PATH and PYTHONPATH; move the checkout"
        raise ConfigurationError(msg)


def choose_index(environ: Mapping[str, str]) -> str:
    """Return the index that torch comes from: the variable's, else PyTorch's CPU index, else ``pypi``.

    The CPU index is taken where it answers in time and the machine has no GPU.
    """
    said = environ.get(INDEX_VARIABLE, "").strip()
    if said:
        return said
    return CPU_INDEX if not has_gpu() and answers(CPU_INDEX) else DEFAULT_INDEX


def has_gpu() -> bool:
    """Tell whether this machine has a GPU that a build of torch would use."""
    return bool(gpus())


def gpus() -> list[str]:
    """Return the GPUs that a build of torch would use, in whatever words the machine has for each."""
    nodes = [str(path) for path in (*Path("/dev").glob("nvidia[0-9]*"), Path("/dev/kfd")) if path.exists()]
    if not shutil.which("nvidia-smi"):
        return sorted(nodes)
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, errors="replace", timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return sorted(nodes)
    named = [line for line in listed.stdout.splitlines() if line.startswith("GPU") and not listed.returncode]
    return [*sorted(nodes), *named]


def answers(index: str, timeout_s: float = ANSWER_S) -> bool:
    """Tell whether an index has torch to offer, within the time, the look-up of its name included."""
    found = threading.Event()

    def ask() -> None:
        request = urllib.request.Request(f"{index.rstrip('/')}/torch/", method="HEAD")  # noqa: S310 (a constant)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s):  # noqa: S310
                found.set()
        except (OSError, urllib.error.URLError, ValueError):
            pass

    # The look-up of a name has no time limit of its own: a thread that still waits is left behind.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return found.is_set()


def users_python(environ: Mapping[str, str]) -> str:
    """Return the Python that the user's shell would start: nox's own script environment is not theirs."""
    path = environ.get("PATH", os.defpath)
    if Path(sys.prefix).name == "_nox_script_mode":
        own = Path(sys.executable).parent
        path = os.pathsep.join(place for place in path.split(os.pathsep) if Path(place) != own)
    return shutil.which("python", path=path) or shutil.which("python3", path=path) or sys.executable


def into_folder(folder: Path, project: Path, python: str) -> list[str]:
    """Return the command that installs canishard and pytest into a folder, for use with PYTHONPATH.

    It is for a torch that is installed already, whose environment is not ours to change.
    """
    # As an address: in a path that stands alone `#`, `;`, brackets and a space have a meaning of their own.
    target = ["--target", str(folder), f"canishard @ {project.absolute().as_uri()}", "pytest>=8"]
    if shutil.which("uv"):
        return [
            "uv",
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--reinstall-package",
            "canishard",
            *target,
        ]
    return [python, "-m", "pip", "install", "--quiet", "--upgrade", *target]


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskPlan:
    """Whether each environment is dropped after its run, and why, in words."""

    drop: bool
    why: str


def need_bytes(release: Release, index: str, environ: Mapping[str, str]) -> int:
    """Return about how much room a release takes, its part of the cache included."""
    if release.version == INSTALLED:
        return 0
    name = release.wheel.name if release.wheel else index.rstrip("/").rpartition("/")[2]
    is_cpu = "cpu" in name or not sys.platform.startswith("linux") or _has_cpu_wheel(release, environ)
    return CPU_BUILD_BYTES if is_cpu else CUDA_BUILD_BYTES


def _has_cpu_wheel(release: Release, environ: Mapping[str, str]) -> bool:
    """Tell whether a folder that the installer looks in has a CPU build of the release."""
    said = environ.get("UV_FIND_LINKS") or environment(environ).get("UV_FIND_LINKS", "")
    folders = [_folder(place.strip()) for place in said.split(",") if place.strip()]
    pattern = f"torch-{release.version}+cpu-*.whl"
    return any(folder.is_dir() and any(folder.glob(pattern)) for folder in folders)


def _folder(place: str) -> Path:
    """Return the folder that a place is, given by its path or as an address; any other address is no folder."""
    return Path(url2pathname(urlsplit(place).path) if place.startswith("file:") else place)


def plan_disk(needs: Sequence[int], free: int, *, keep: bool | None) -> DiskPlan:
    """Decide whether environments are dropped; ``keep`` is what the user said, None for nothing.

    Raises DiskSpaceError where not even one of them fits.
    """
    usable = max(free - RESERVE_BYTES, 0)
    room = f"about {_gb(sum(needs))} GB needed to keep every environment, {_gb(free)} GB free"
    if max(needs, default=0) > usable:
        msg = (
            f"a release needs about {_gb(max(needs) + RESERVE_BYTES)} GB of disk, {_gb(free)} GB are free: "
            f"make room, or set {INDEX_VARIABLE} to an index of CPU builds"
        )
        raise DiskSpaceError(msg)
    short = sum(needs) > usable
    if keep is not None:
        caution = ", which may run out" if keep and short else ""
        return DiskPlan(
            drop=not keep, why=f"{room}: environments are {'kept' if keep else 'dropped'}, as asked{caution}"
        )
    if short:
        return DiskPlan(
            drop=True, why=f"{room}: each is removed after its run, with its cache (--keep-envs keeps them)"
        )
    return DiskPlan(drop=False, why=f"{room}: they are kept")


def _gb(size: int) -> str:
    return f"{size / GB:.3g}"
