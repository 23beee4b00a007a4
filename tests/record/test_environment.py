"""The series and the build that a child's description stands for."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import environment

from canishard.errors import InfraError
from canishard.record.environment import Variant, channel_key, devices, from_description, satisfies

DESCRIPTION: dict[str, Any] = {
    "torch": "2.8.0+cu128",
    "git_version": "a1b2c3",
    "cuda": "12.8",
    "hip": None,
    "nccl": "2.27.3",
    "driver": False,
    "python": "3.11.9",
    "glibc": "2.36",
    "system": "Linux",
    "machine": "x86_64",
    "packages": {"numpy": "2.3.0"},
    "devices": {"cuda": 0},
}


def test_from_description() -> None:
    place, build = from_description(DESCRIPTION, "gloo", "cpu", "2.8.0")
    assert place == environment()
    assert build == Variant(
        torch="2.8.0+cu128",
        git_version="a1b2c3",
        cuda="12.8",
        hip=None,
        nccl="2.27.3",
        python="3.11.9",
        glibc="2.36",
        packages={"numpy": "2.3.0"},
    )


@pytest.mark.parametrize(
    ("more", "flavour"),
    [
        ({}, "cuda-nodriver"),
        ({"driver": True}, "cuda"),
        ({"cuda": None}, "cpu"),
        ({"cuda": None, "driver": True}, "cpu"),
        ({"cuda": None, "hip": "6.4"}, "rocm"),
    ],
)
def test_flavour(more: dict[str, Any], flavour: str) -> None:
    place, _ = from_description({**DESCRIPTION, **more}, "gloo", "cpu", "2.8.0")
    assert place.flavour == flavour


def test_an_incomplete_description() -> None:
    with pytest.raises(InfraError) as raised:
        from_description({**DESCRIPTION, "driver": "no"}, "gloo", "cpu", "2.8.0")
    assert str(raised.value) == (
        "the description of the environment that the child sent: driver: Expected `bool`, got `str`"
    )
    with pytest.raises(InfraError) as raised:
        from_description({"torch": "2.8.0"}, "gloo", "cpu", "2.8.0")
    assert str(raised.value) == (
        "the description of the environment that the child sent: top: Object missing required field `git_version`"
    )


def test_another_torch_than_the_one_asked_for() -> None:
    with pytest.raises(InfraError) as raised:
        from_description(DESCRIPTION, "gloo", "cpu", "2.9.0")
    assert str(raised.value) == (
        "torch 2.8.0+cu128 is installed where 2.9.0 was asked for; install that release and measure again"
    )


@pytest.mark.parametrize("channel", ["nightly", "local"])
def test_a_moving_channel_takes_any_torch(channel: str) -> None:
    place, _ = from_description({**DESCRIPTION, "torch": "2.16.0a0+gitc0ffee"}, "gloo", "cpu", channel)
    assert place.channel == channel
    assert not place.is_stable


@pytest.mark.parametrize(
    ("channel", "stable"),
    [
        ("2.8.0", True),
        ("2.10.1", True),
        ("2.9.0rc1", False),
        ("2.9.0a0", False),
        ("2.9.0.dev20260101", False),
        ("2.9.0+cpu", False),
        ("nightly", False),
        ("local", False),
        ("feature-branch", False),
    ],
)
def test_a_stable_release(channel: str, stable: bool) -> None:
    assert environment(channel).is_stable is stable


@pytest.mark.parametrize(("device", "found"), [("cuda", {"NVIDIA H200": 2}), ("cpu", {}), ("xpu", {})])
def test_devices_are_those_that_the_ranks_use(device: str, found: dict[str, int]) -> None:
    assert devices({**DESCRIPTION, "accelerators": {"cuda": {"NVIDIA H200": 2}}}, device) == found


@pytest.mark.parametrize(
    ("asked", "found", "wanted"),
    [
        ("2.13.0", "2.13.0+cpu", True),
        ("2.13.0", "2.13.0", True),
        ("2.13", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0+cu132", False),
        ("2.13.0", "2.13.1+cpu", False),
        ("2.13.0", "2.13.0a0+git", False),
        ("2.13.0", "2.13.0.dev20260101+cpu", False),
        ("2.13.0", "2.13.0rc1", False),
        ("2.13.0", "unknown", False),
        ("newest", "2.13.0", False),
    ],
)
def test_satisfies(asked: str, found: str, wanted: bool) -> None:
    assert satisfies(asked, found) is wanted


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64"),
        (
            {"backend": "cpu:gloo,cuda:nccl", "device": "cuda", "flavour": "cuda"},
            "torch-2.8.0-cuda-cpu=gloo+cuda=nccl-cuda-cp311-linux-x86_64",
        ),
        ({"backend": "my-ccl"}, "torch-2.8.0-cuda-nodriver-my~2dccl-cpu-cp311-linux-x86_64"),
        ({"backend": "../x y"}, "torch-2.8.0-cuda-nodriver-..~2fx~20y-cpu-cp311-linux-x86_64"),
        ({"channel": "nightly"}, "torch-nightly-cuda-nodriver-gloo-cpu-cp311-linux-x86_64"),
    ],
)
def test_name(more: dict[str, Any], name: str) -> None:
    assert environment(**more).name == name


def test_names_of_different_series_differ() -> None:
    odd = ["a:b", "a=b", "a,b", "a+b", "a-b", "a~b", "a b", "a.b", "ab"]
    names = {environment(backend=backend).name for backend in odd}
    names |= {environment(device=device).name for device in odd}
    assert len(names) == 2 * len(odd)


def test_channels_sort_by_age() -> None:
    channels = ["local", "2.10.0", "nightly", "2.9.1", "feature-branch", "2.9.0"]
    ordered = ["2.9.0", "2.9.1", "2.10.0", "nightly", "local", "feature-branch"]
    assert sorted(channels, key=channel_key) == ordered
