"""Nightly builds: which an index has, of which day, and how one is asked for."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from packaging import tags

from canishard import releases
from canishard.errors import ConfigurationError, InfraError
from canishard.releases import Release
from canishard.walk import nightlies

PAGE = """<!DOCTYPE html><html><body>
<a href="/whl/nightly/cpu/torch-2.16.0.dev20261130%2Bcpu-cp311-cp311-linux_x86_64.whl#sha256=00">one</a>
<a href="torch-2.16.0.dev20261130%2Bcpu-cp312-cp312-linux_x86_64.whl">the same for another Python</a>
<a href="torch-2.16.0.dev20261128%2Bcpu-cp311-cp311-linux_x86_64.whl">older</a>
<a href="torch-2.9.0.dev20261129%2Bcpu-cp311-cp311-linux_x86_64.whl">between in time, not in version</a>
<a href="torch-2.16.0.dev20261201%2Bcpu-cp312-cp312-linux_x86_64.whl">another Python</a>
<a href="torch-2.16.0.dev20261202%2Bcpu-cp311-cp311t-linux_x86_64.whl">without the lock</a>
<a href="torch-2.16.0.dev20261203-cp311-none-macosx_11_0_arm64.whl">another system</a>
<a href="torch-2.16.0.dev20261204%2Bcpu-cp311-cp311-manylinux_2_28_aarch64.whl">another machine</a>
<a href="torch-2.15.0-cp311-cp311-linux_x86_64.whl">a release</a>
<a href="torchvision-0.31.0.dev20261130-cp311-cp311-linux_x86_64.whl">another project</a>
<a href="torch-2.16.0.tar.gz">no wheel</a><a name="x">no link</a>
</body></html>"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "torch"
    folder.mkdir()
    return {nightlies.NIGHTLY_INDEX_VARIABLE: tmp_path.as_uri()}


def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let a file stand for the index's page, which a folder's address does not give."""
    page = tmp_path / "page.html"
    page.write_text(PAGE, encoding="utf-8")
    opened = urllib.request.urlopen
    monkeypatch.setattr(urllib.request, "urlopen", lambda _, timeout: opened(page.as_uri(), timeout=timeout))


def test_the_builds_of_an_index_for_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served(monkeypatch, tmp_path)
    monkeypatch.setattr(tags, "platform_tags", lambda: iter(["manylinux_2_28_x86_64", "linux_x86_64"]))

    assert nightlies.listed({}) == ["2.9.0.dev20261129", "2.16.0.dev20261128", "2.16.0.dev20261130"]


def test_the_python_is_that_of_the_newest_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served(monkeypatch, tmp_path)
    monkeypatch.setattr(tags, "platform_tags", lambda: iter(["linux_x86_64"]))
    rows = [Release(version="2.14.0", python="3.11"), Release(version="2.15.0", python="3.12")]
    monkeypatch.setattr(releases, "load", lambda: rows)

    assert nightlies.listed({}) == ["2.16.0.dev20261130", "2.16.0.dev20261201"]


def test_the_index_is_pytorchs_unless_another_is_named() -> None:
    assert nightlies.index({}) == nightlies.NIGHTLY_INDEX
    assert nightlies.index({nightlies.NIGHTLY_INDEX_VARIABLE: " "}) == nightlies.NIGHTLY_INDEX
    assert nightlies.index({nightlies.NIGHTLY_INDEX_VARIABLE: "file:///n"}) == "file:///n"


@pytest.mark.parametrize(
    ("text", "wanted"), [("2026-11-30", True), ("20261130", False), ("2026-11-300", False), ("2.8.0", False)]
)
def test_what_names_a_day(text: str, *, wanted: bool) -> None:
    assert nightlies.is_date(text) is wanted


def test_an_index_that_does_not_answer_is_one_line(environ: dict[str, str]) -> None:
    with pytest.raises(InfraError) as raised:
        nightlies.listed(
            {nightlies.NIGHTLY_INDEX_VARIABLE: environ[nightlies.NIGHTLY_INDEX_VARIABLE] + "/no"}
        )
    assert "no list of nightly builds" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("version", "day"),
    [
        ("2.16.0.dev20261130", "2026-11-30"),
        ("2.16.0.dev20261130+cpu", "2026-11-30"),
        ("2.16.0", ""),
        ("2.16.0.dev1", ""),
        ("installed", ""),
    ],
)
def test_the_day_of_a_version(version: str, day: str) -> None:
    assert nightlies.date_of(version) == day


def test_what_lies_between_two_days() -> None:
    versions = ["2.16.0.dev20261127", "2.16.0.dev20261128", "2.16.0.dev20261130"]

    assert nightlies.between("2026-11-28", "2026-11-30", versions) == versions[1:]
    with pytest.raises(ConfigurationError, match=r"2026-11-29: no .* the index has 2026-11-27 to 2026-11-30"):
        nightlies.between("2026-11-27", "2026-11-29", versions)
    with pytest.raises(ConfigurationError, match="the index has none"):
        nightlies.between("2026-11-27", "2026-11-29", [])


def test_on_the_day_that_a_branch_is_cut_the_newer_line_counts() -> None:
    versions = ["2.16.0.dev20261129", "2.16.0.dev20261130", "2.17.0.dev20261130", "2.16.0.dev20261201"]

    assert nightlies.newest(versions[:3]) == "2.17.0.dev20261130"
    assert nightlies.newest(versions) == "2.16.0.dev20261201"
    assert nightlies.between("2026-11-29", "2026-12-01", versions) == [versions[0], *versions[2:]]


def test_a_nightly_is_asked_for_by_variables() -> None:
    assert nightlies.environment("2.8.0", {}) == {}
    assert nightlies.environment("2.16.0.dev20261130", {nightlies.NIGHTLY_INDEX_VARIABLE: "file:///n"}) == {
        "CANISHARD_TORCH": "2.16.0.dev20261130",
        "CANISHARD_TORCH_INDEX": "file:///n",
    }
