"""Tests of canishard.walk.install: where torch comes from, and whether there is room for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from made_up import AWKWARD
from packaging.requirements import Requirement

from canishard import releases
from canishard.errors import ConfigurationError, DiskSpaceError
from canishard.releases import Release
from canishard.walk import install
from canishard.walk.install import (
    GB,
    RESERVE_BYTES,
    choose_index,
    environment,
    need_bytes,
    options,
    plan_disk,
)

RELEASE = Release(version="7.1.0", python="3.11", pins=("setuptools",))
PRERELEASE = Release(version="7.2.0rc1", python="3.11", stable=False)
INSTALLED = Release(version="installed", stable=False)
NEEDED = "about 14 GB needed to keep every environment"
URL = "https://example.org/whl/cpu"


def test_requirements() -> None:
    assert install.requirements(RELEASE) == ["torch==7.1.0", "setuptools"]
    assert install.requirements(INSTALLED) == []


def test_a_wheel_is_required_by_its_path(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-7.2.0-cp311-cp311-linux_x86_64.whl"
    release = Release(version="7.2.0", wheel=wheel, stable=False)
    assert install.requirements(release) == [f"torch @ {wheel.as_uri()}"]


def path_of(requirement: str) -> str:
    """Return the path that an installer reads in a requirement by address."""
    found = Requirement(requirement)
    assert found.url is not None
    assert found.marker is None
    address = urlsplit(found.url)
    assert (address.query, address.fragment) == ("", "")
    return url2pathname(address.path)


@pytest.mark.parametrize("name", AWKWARD)
def test_what_is_installed_may_lie_below_any_name(name: str, tmp_path: Path) -> None:
    wheel = tmp_path / name / "torch-7.2.0-cp311-cp311-linux_x86_64.whl"
    wheel.parent.mkdir()
    wheel.touch()
    [release] = releases.select([RELEASE], [str(wheel)])
    assert path_of(install.requirements(release)[0]) == str(wheel)
    command = install.into_folder(tmp_path / name / "folder", tmp_path / name, "/bin/python")
    assert path_of(command[-2]) == str(tmp_path / name)
    assert command[-3] == str(tmp_path / name / "folder")


@pytest.mark.parametrize("name", AWKWARD)
def test_wheels_are_found_in_a_folder_of_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "torch-7.1.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    address = folder.as_uri()
    said = [{"PIP_FIND_LINKS": f"/nowhere {address}"}, {"UV_FIND_LINKS": f"/nowhere,{address}"}]
    said += [{"UV_FIND_LINKS": str(folder)}] if "," not in name else []
    said += [{"PIP_FIND_LINKS": str(folder)}] if " " not in name else []
    assert [need_bytes(RELEASE, "pypi", environ) for environ in said] == [install.CPU_BUILD_BYTES] * len(said)


def test_a_folder_that_parts_a_path_is_refused(tmp_path: Path) -> None:
    install.require_one_place(tmp_path)
    with pytest.raises(ConfigurationError) as raised:
        install.require_one_place(tmp_path / f"a{os.pathsep}b")
    assert "move the checkout" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("backend", "release", "index", "expected"),
    [
        ("uv", RELEASE, "pypi", ["--compile-bytecode"]),
        ("uv", RELEASE, URL, ["--compile-bytecode", "--index", URL, "--index-strategy", "unsafe-best-match"]),
        ("uv", PRERELEASE, "pypi", ["--compile-bytecode", "--prerelease", "allow"]),
        ("virtualenv", RELEASE, "pypi", []),
        ("virtualenv", RELEASE, URL, ["--extra-index-url", URL]),
        ("virtualenv", PRERELEASE, URL, ["--extra-index-url", URL, "--pre"]),
    ],
)
def test_options_of_the_installer(backend: str, release: Release, index: str, expected: list[str]) -> None:
    assert options(backend, release, index) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        (
            {"PIP_FIND_LINKS": "wheels  https://example.org/w"},
            {"UV_FIND_LINKS": "wheels,https://example.org/w"},
        ),
        (
            {"PIP_FIND_LINKS": "/my,wheels https://example.org/a,b"},
            {"UV_FIND_LINKS": "file:///my%2Cwheels,https://example.org/a,b"},
        ),
        ({"PIP_FIND_LINKS": "wheels", "UV_FIND_LINKS": "mine"}, {}),
        ({"PIP_INDEX_URL": "https://example.org/simple"}, {"UV_DEFAULT_INDEX": "https://example.org/simple"}),
        ({"PIP_INDEX_URL": "https://example.org/simple", "UV_INDEX_URL": "mine"}, {}),
        ({"PIP_INDEX_URL": "https://example.org/simple", "UV_DEFAULT_INDEX": "mine"}, {}),
        (
            {"PIP_EXTRA_INDEX_URL": "https://a.example https://b.example"},
            {
                "UV_INDEX": "https://a.example https://b.example",
                "UV_INDEX_STRATEGY": "unsafe-best-match",
            },
        ),
        (
            {"PIP_EXTRA_INDEX_URL": "https://a.example", "UV_INDEX_STRATEGY": "first-index"},
            {"UV_INDEX": "https://a.example"},
        ),
        ({"PIP_EXTRA_INDEX_URL": "https://a.example", "UV_EXTRA_INDEX_URL": "mine"}, {}),
    ],
)
def test_pips_variables_are_passed_on_to_uv(environ: dict[str, str], expected: dict[str, str]) -> None:
    assert environment(environ) == expected


@pytest.mark.parametrize(
    ("said", "gpu", "answering", "expected"),
    [
        ("", False, True, install.CPU_INDEX),
        ("", False, False, "pypi"),
        ("", True, True, "pypi"),
        (URL, True, False, URL),
        ("pypi", False, True, "pypi"),
    ],
)
def test_choose_index(
    monkeypatch: pytest.MonkeyPatch, said: str, gpu: bool, answering: bool, expected: str
) -> None:
    monkeypatch.setattr(install, "has_gpu", lambda: gpu)
    monkeypatch.setattr(install, "answers", lambda _index: answering)
    assert choose_index({install.INDEX_VARIABLE: said} if said else {}) == expected


def test_an_index_that_is_not_there_does_not_answer() -> None:
    assert not install.answers("http://127.0.0.1:9", timeout_s=2.0)


@pytest.mark.parametrize(
    ("release", "index", "platform", "expected"),
    [
        (RELEASE, "pypi", "linux", install.CUDA_BUILD_BYTES),
        (RELEASE, "pypi", "darwin", install.CPU_BUILD_BYTES),
        (RELEASE, URL, "linux", install.CPU_BUILD_BYTES),
        (RELEASE, "https://example.org/cpu-builds/whl/cu126", "linux", install.CUDA_BUILD_BYTES),
        (INSTALLED, "pypi", "linux", 0),
    ],
)
def test_need(
    monkeypatch: pytest.MonkeyPatch, release: Release, index: str, platform: str, expected: int
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert need_bytes(release, index, {}) == expected


def test_a_cpu_wheel_in_a_folder_needs_little(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "torch-7.1.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    assert need_bytes(RELEASE, "pypi", {"PIP_FIND_LINKS": f"/nowhere {tmp_path}"}) == install.CPU_BUILD_BYTES


@pytest.mark.parametrize(
    ("free", "keep", "drop", "why"),
    [
        (30 * GB, None, False, f"{NEEDED}, 30 GB free: they are kept"),
        (
            15 * GB,
            None,
            True,
            f"{NEEDED}, 15 GB free: each is removed after its run, with its cache (--keep-envs keeps them)",
        ),
        (
            15 * GB,
            True,
            False,
            f"{NEEDED}, 15 GB free: environments are kept, as asked, which may run out",
        ),
        (
            30 * GB,
            False,
            True,
            f"{NEEDED}, 30 GB free: environments are dropped, as asked",
        ),
    ],
)
def test_what_is_dropped_follows_from_the_room(free: int, keep: bool | None, drop: bool, why: str) -> None:
    plan = plan_disk([7 * GB, 7 * GB], free, keep=keep)
    assert (plan.drop, plan.why) == (drop, why)


def test_too_little_for_one_release_is_an_error_before_anything_is_installed() -> None:
    with pytest.raises(
        DiskSpaceError, match=r"a release needs about 9 GB of disk, 8 GB are free: make room, or"
    ):
        plan_disk([7 * GB], 6 * GB + RESERVE_BYTES, keep=None)


@pytest.mark.parametrize(("has_uv", "starts"), [(True, ["uv", "pip"]), (False, ["/bin/python", "-m", "pip"])])
def test_into_folder(monkeypatch: pytest.MonkeyPatch, has_uv: bool, starts: list[str]) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: "/bin/uv" if has_uv else None)
    command = install.into_folder(Path("folder"), Path("project"), "/bin/python")
    assert command[: len(starts)] == starts
    address = Path("project").absolute().as_uri()
    assert command[-4:] == ["--target", "folder", f"canishard @ {address}", "pytest>=8"]


@pytest.mark.skipif(os.name == "nt", reason="makes a program of a file by its mode")
@pytest.mark.parametrize(("own", "expected"), [("_nox_script_mode", "theirs"), ("tools", "tools")])
def test_the_users_python_is_not_that_of_noxs_script_mode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, expected: str
) -> None:
    for name in (own, "theirs"):
        program = tmp_path / name / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / own))
    monkeypatch.setattr(sys, "executable", str(tmp_path / own / "bin" / "python"))
    path = os.pathsep.join(str(tmp_path / name / "bin") for name in (own, "theirs"))
    assert install.users_python({"PATH": path}) == str(tmp_path / expected / "bin" / "python")
