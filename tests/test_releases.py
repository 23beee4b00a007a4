"""Tests of canishard.releases: the committed file, every fault of a row, and the selection."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from canishard import releases
from canishard.errors import ConfigurationError
from canishard.releases import Release, load, newest_patches, select, supported

ROW = '[[release]]\nversion = "{version}"\npython = "3.11"\n{more}\n'

PYTHON = '[[python]]\nversion = "3.11"\nwhy = "Every release has wheels for it."\n'


def file_with(folder: Path, *rows: str) -> Path:
    path = folder / "releases.toml"
    path.write_text("\n".join([*rows, PYTHON]), encoding="utf-8")
    return path


@pytest.fixture
def rows(tmp_path: Path) -> list[Release]:
    versions = ["7.1.0", "7.1.1", "7.2.0", "7.10.0", "7.10.2"]
    return load(
        file_with(
            tmp_path, *(ROW.format(version=v, more="ci = true" if v == "7.2.0" else "") for v in versions)
        )
    )


def versions_of(selected: list[Release]) -> list[str]:
    return [release.version for release in selected]


def test_the_committed_file_is_right() -> None:
    committed = load()
    assert len(committed) >= 18
    assert len(newest_patches(committed)) >= 12
    assert releases.ci_release(committed) in committed
    assert all(release.released for release in committed)


def test_a_row_becomes_a_release(tmp_path: Path) -> None:
    path = file_with(tmp_path, ROW.format(version="7.1.0", more='pins = ["setuptools<90"]\nci = true'))
    assert load(path) == [Release(version="7.1.0", python="3.11", pins=("setuptools<90",), ci=True)]


def test_the_oldest_python_is_one_of_those_allowed(tmp_path: Path) -> None:
    why = '[[python]]\nversion = "3.10"\nwhy = "Old."'
    path = file_with(tmp_path, ROW.format(version="7.1.0", more='also_python = ["3.10"]\nci = true'), why)
    assert load(path)[0].also_python == ("3.10",)


def test_pins_of_every_release_come_before_its_own(tmp_path: Path) -> None:
    row = ROW.format(version="7.1.0", more='pins = ["setuptools<90"]\nci = true')
    path = file_with(tmp_path, 'pins = ["numpy==3"]', row)
    assert [release.pins for release in load(path)] == [("numpy==3", "setuptools<90")]


@pytest.mark.parametrize(
    ("pins", "fault"),
    [
        (
            '["torch==7"]',
            'pins[0]: expected a requirement other than torch, such as "setuptools", got "torch==7"',
        ),
        ("[7]", 'pins[0]: expected a requirement other than torch, such as "setuptools", got "7"'),
        ('"numpy"', "pins: expected a list of requirements"),
    ],
)
def test_wrong_pins_of_every_release_are_named(tmp_path: Path, pins: str, fault: str) -> None:
    path = file_with(tmp_path, f"pins = {pins}", ROW.format(version="7.1.0", more="ci = true"))
    with pytest.raises(ConfigurationError, match=re.escape(fault)):
        load(path)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("python = 3.11", "release[1].python: expected `str`, got `float`"),
        (
            'python = "3.9"',
            'release[1].python: expected a version such as "3.11", 3.10 or later, got "3.9"',
        ),
        (
            'python = "3.11.2"',
            'release[1].python: expected a version such as "3.11", 3.10 or later, got "3.11.2"',
        ),
        (
            'python = "3.11"\npins = ["torch==7"]',
            'release[1].pins[0]: expected a requirement other than torch, such as "setuptools", got "torch==7"',
        ),
        (
            'python = "3.11"\npins = ["numpy", "a b"]',
            'release[1].pins[1]: expected a requirement other than torch, such as "setuptools", got "a b"',
        ),
        ('python = "3.11"\npins = "numpy"', "release[1].pins: expected `array`, got `str`"),
        ('python = "3.11"\nreleased = 2025-08-06', "release[1].released: expected `str`, got `date`"),
        *(
            (
                f'python = "3.11"\nreleased = "{text}"',
                f'release[1].released: expected a day such as "2025-08-06", got "{text}"',
            )
            for text in ("2025-02-29", "20250806", "2025-W32-3", "August")
        ),
        ('python = "3.11"\nci = 1', "release[1].ci: expected `bool`, got `int`"),
        (
            'python = "3.11"\npin = []',
            (
                "release[1].pin: unknown key; did you mean pins? "
                "allowed: also_python, ci, pins, python, released, version"
            ),
        ),
        ("", "release[1].python: missing"),
        (
            'python = "3.11"\nalso_python = ["3.12", "3"]',
            'release[1].also_python[1]: expected a version such as "3.11", 3.10 or later, got "3"',
        ),
        *(
            (
                f'python = "3.11"\nalso_python = {further}',
                "release[1].also_python: expected further Pythons than 3.11, each once",
            )
            for further in ('["3.11"]', '["3.12", "3.12"]')
        ),
        ('python = "3.12"', "release[1]: no [[python]] says why checks run on Python 3.12"),
        (
            'python = "3.11"\nalso_python = ["3.13"]',
            "release[1]: no [[python]] says why checks run on Python 3.13",
        ),
        (
            'python = "3.11"\n[[python]]\nversion = "3.14"\nwhy = "New."',
            "python[0].version: no row runs on 3.14",
        ),
        (
            'python = "3.11"\n[[python]]\nversion = "3.14"\nwhy = ""',
            "python[0].why: expected `str` of length >= 1",
        ),
    ],
)
def test_a_wrong_row_is_named_with_what_is_allowed(tmp_path: Path, more: str, fault: str) -> None:
    good = ROW.format(version="7.1.0", more="ci = true")
    path = file_with(tmp_path, good, f'[[release]]\nversion = "7.2.0"\n{more}')
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert str(caught.value) == f"releases.toml: {fault}"


@pytest.mark.parametrize(
    ("versions", "ci", "fault"),
    [
        (["7.2"], "7.2", 'release[0].version: expected a final version of three numbers, got "7.2"'),
        (
            ["7.2.0rc1"],
            "7.2.0rc1",
            'release[0].version: expected a final version of three numbers, got "7.2.0rc1"',
        ),
        (
            ["7.2.0", "7.1.0"],
            "7.2.0",
            'release[1].version: expected a version later than the 7.2.0 of the row above, got "7.1.0"',
        ),
        (
            ["7.2.0", "7.2.0"],
            "7.2.0",
            (
                'release[1].version: expected a version later than the 7.2.0 of the row above, got "7.2.0"; '
                "releases.toml: release: expected ci = true on exactly one row, got it on 7.2.0 and 7.2.0"
            ),
        ),
        (["7.2.0"], "", "release: expected ci = true on exactly one row, got it on none"),
    ],
)
def test_rows_must_fit_together(tmp_path: Path, versions: list[str], ci: str, fault: str) -> None:
    path = file_with(
        tmp_path, *(ROW.format(version=v, more="ci = true" if v == ci else "") for v in versions)
    )
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert str(caught.value) == f"releases.toml: {fault}"


def test_all_faults_are_reported_together(tmp_path: Path) -> None:
    path = file_with(
        tmp_path, '[[release]]\nversion = 7\n[[release]]\npython = "x"\nversion = "7.1.0"\n[other]'
    )
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert str(caught.value).count("releases.toml: ") == 4


def test_what_selects_the_session_of_a_release(rows: list[Release]) -> None:
    assert {row.version: releases.tags(rows, row) for row in rows} == {
        "7.1.0": ["all-patches"],
        "7.1.1": ["newest-patches", "all-patches"],
        "7.2.0": ["ci-checks", "newest-patches", "all-patches"],
        "7.10.0": ["all-patches"],
        "7.10.2": ["newest-patches", "all-patches"],
    }
    wheel = Release(version="7.10.2", python="3.11", stable=False)
    assert releases.tags(rows, wheel) == []


def test_a_row_is_measured_on_further_pythons_too(tmp_path: Path) -> None:
    further = 'also_python = ["3.12"]\nci = true'
    why = '[[python]]\nversion = "3.12"\nwhy = "To see that a column does not depend on it."'
    path = file_with(
        tmp_path, ROW.format(version="7.1.0", more=further), ROW.format(version="7.2.0", more=""), why
    )
    rows = load(path)

    each = releases.on_each_python(rows)

    assert [(one.session, one.version, one.python) for one in each] == [
        ("7.1.0", "7.1.0", "3.11"),
        ("7.1.0-py3.12", "7.1.0", "3.12"),
        ("7.2.0", "7.2.0", "3.11"),
    ]
    assert [releases.tags(rows, one) for one in each] == [
        ["ci-checks", "newest-patches", "all-patches"],
        ["newest-patches", "all-patches"],
        ["newest-patches", "all-patches"],
    ]
    assert releases.on_each_python(each[1:2]) == each[1:2]


@pytest.mark.parametrize(
    ("torch", "all_patches", "expected"),
    [
        ([], False, ["7.1.1", "7.2.0", "7.10.2"]),
        ([], True, ["7.1.0", "7.1.1", "7.2.0", "7.10.0", "7.10.2"]),
        (["7.1.0"], False, ["7.1.0"]),
        ([">=7.2"], False, ["7.2.0", "7.10.2"]),
        ([">=7.2"], True, ["7.2.0", "7.10.0", "7.10.2"]),
        (["<=7.10.0,!=7.2.*"], False, ["7.1.1", "7.10.0"]),
        (["7.10.0", "7.1.0", "7.10.0", ">=7.10"], False, ["7.1.0", "7.10.0", "7.10.2"]),
        (["7.11.0rc1", "7.2.0"], False, ["7.2.0", "7.11.0rc1"]),
        (["7.11.0.dev20300101+cpu"], False, ["7.11.0.dev20300101+cpu"]),
        (["installed"], False, ["installed"]),
    ],
)
def test_select(rows: list[Release], torch: list[str], all_patches: bool, expected: list[str]) -> None:
    assert versions_of(select(rows, torch, all_patches=all_patches)) == expected


NO_WHEEL = "expected a wheel of torch for CPython, torch-<version>-cp3<minor>-<abi>-<platform>.whl"
KNOWN = "Known: 7.1.0, 7.1.1, 7.2.0, 7.10.0, 7.10.2; also a specifier, a pre-release, the path of a wheel, or `installed`"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("7.3.0", f"--torch 7.3.0: unknown release. {KNOWN}"),
        ("7.1", f"--torch 7.1: unknown release. {KNOWN}"),
        ("newest", f"--torch newest: unknown release. {KNOWN}"),
        (">=8", f"--torch >=8: matches no release. {KNOWN}"),
        (">=x", f"--torch >=x: expected a specifier such as '>=7.10.2'. {KNOWN}"),
        (
            "numpy-2.0.0-cp311-cp311-linux_x86_64.whl",
            f"--torch numpy-2.0.0-cp311-cp311-linux_x86_64.whl: {NO_WHEEL}",
        ),
        (
            "torch-7.2.0-cp311-cp311-linux_x86_64.whl",
            "--torch torch-7.2.0-cp311-cp311-linux_x86_64.whl: no such file",
        ),
    ],
)
def test_what_cannot_be_selected_is_said_in_one_line(rows: list[Release], wanted: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        select(rows, [wanted])
    assert str(caught.value) == message


def test_a_wheel_says_its_version_and_python(rows: list[Release], tmp_path: Path) -> None:
    wheel = tmp_path / "torch-7.11.0a0+git1234-cp312-cp312-linux_x86_64.whl"
    wheel.touch()
    assert select(rows, [str(wheel)]) == [
        Release(version="7.11.0a0+git1234", python="3.12", wheel=wheel, stable=False)
    ]


# ---- what is supported ---------------------------------------------------------------------------


def released(**days: str) -> list[Release]:
    return [Release(version=name.replace("_", ".").strip("v"), released=day) for name, day in days.items()]


def test_supported_are_the_rows_of_two_years_before_the_latest() -> None:
    rows = released(
        v7_1_0="2030-03-14",
        v7_1_1="2030-03-15",
        v7_2_0="2030-06-01",
        v7_3_0="2032-03-15",
        v7_2_1="2031-01-01",
    )
    assert versions_of(supported(rows)) == ["7.1.1", "7.2.0", "7.3.0", "7.2.1"]


def test_two_years_before_a_leap_day() -> None:
    rows = released(v7_1_0="2030-02-28", v7_2_0="2030-03-01", v7_3_0="2032-02-29")
    assert versions_of(supported(rows)) == ["7.2.0", "7.3.0"]


def test_a_row_without_a_day_is_not_counted() -> None:
    assert versions_of(supported(released(v7_1_0="", v7_2_0="2031-01-01"))) == ["7.2.0"]
    assert supported(released(v7_1_0="")) == supported([]) == []


def test_supported_of_the_committed_file() -> None:
    committed = load()
    found = supported(committed)
    assert found[-1] == committed[-1]
    assert versions_of(found) == versions_of(committed)[len(committed) - len(found) :]
