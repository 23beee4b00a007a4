"""Badges: of the newest release, readable by a service and by a screen reader."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from made_up import failed, outcome, record

from canishard.answers import dataset
from canishard.launch.outcome import Outcome
from canishard.record import Record
from canishard.report import badges

SVG = "{http://www.w3.org/2000/svg}"


def files(*records: Record) -> dict[str, bytes]:
    return badges.outputs(dataset.build(records, [], [], {}))


def endpoint(*cells: Outcome) -> dict[str, object]:
    found: dict[str, object] = json.loads(files(record(*cells))["badges/gloo-cpu/a.json"])
    return found


def test_a_backend_and_a_family_each() -> None:
    found = files(
        record(outcome("a.x"), outcome("b.x")), record(outcome("a.x"), backend="cpu:gloo,cuda:nccl")
    )
    assert sorted(found) == [
        "badges/cpu~3agloo~2ccuda~3anccl-cpu/a.json",
        "badges/cpu~3agloo~2ccuda~3anccl-cpu/a.svg",
        "badges/gloo-cpu/a.json",
        "badges/gloo-cpu/a.svg",
        "badges/gloo-cpu/b.json",
        "badges/gloo-cpu/b.svg",
    ]
    assert next(iter(files(record(outcome("a.x"), system="darwin", machine="arm64")))).startswith(
        "badges/gloo-cpu-darwin-arm64/"
    )


@pytest.mark.parametrize(
    ("cells", "message", "color"),
    [
        ([outcome("a.x"), outcome("a.y")], "torch 2.8.0: 2 of 2 pass", badges.GREEN),
        ([outcome("a.x", 2), failed("a.x", 4), outcome("a.y")], "torch 2.8.0: 1 of 2 pass", badges.ORANGE),
        ([failed("a.x")], "torch 2.8.0: 0 of 1 pass", badges.RED),
        (
            [outcome("a.x"), outcome("a.y", status="wrong")],
            "torch 2.8.0: 1 of 2 pass, 1 silently wrong",
            badges.RED,
        ),
        ([outcome("a.x"), failed("a.x+other")], "torch 2.8.0: 1 of 1 pass", badges.GREEN),
        ([outcome("a.x"), outcome("a.y", status="not_run")], "torch 2.8.0: 1 of 1 pass", badges.GREEN),
    ],
    ids=["all", "some", "none", "wrong", "a workaround", "not run"],
)
def test_what_an_endpoint_says(cells: list[Outcome], message: str, color: str) -> None:
    assert endpoint(*cells) == {
        "schemaVersion": 1,
        "label": "a on gloo/cpu",
        "message": message,
        "color": color,
    }


def test_the_newest_stable_release_counts() -> None:
    records = [record(outcome("a.x"), channel=channel) for channel in ("nightly", "2.10.0", "2.9.1")]
    assert b"torch 2.10.0" in files(*records)["badges/gloo-cpu/a.json"]
    assert files(records[0]) == {}


def test_an_image_says_in_words_what_it_shows() -> None:
    image = badges.Badge(label="a & b", message="<1>", color=badges.RED).svg()
    root = ET.fromstring(image)  # noqa: S314 - it is our own
    assert (root.get("role"), root.get("aria-label")) == ("img", "a & b: <1>")
    assert root.findtext(f"{SVG}title") == "a & b: <1>"
    assert [text.text for text in root.iter(f"{SVG}text")] == ["a & b", "<1>"]


@pytest.mark.parametrize("color", [badges.GREEN, badges.ORANGE, badges.RED])
def test_white_text_can_be_read_on_each_colour(color: str) -> None:
    def channel(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (channel(int(color[index : index + 2], 16)) for index in (1, 3, 5))
    assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5
